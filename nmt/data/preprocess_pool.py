"""Preprocess sentence pairs in several processes."""

import logging
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.text_files import split_into_blocks
from nmt.errors import DataError
from nmt.system.hardware import available_cores

log = logging.getLogger(__name__)

BLOCK = 4096  # pairs sent to a process at once
SAFE_PATH = "PYTHONSAFEPATH"  # with it, new processes import no modules of the working directory


class PreprocessPool:
    """One process a core, if the preprocessing takes longer than sending text to a process."""

    def __init__(self, preprocessing: Sides):
        self.preprocessing = preprocessing
        self.cores = available_cores()
        self.pool: ProcessPoolExecutor | None = None
        self.safe_path_before = os.environ.get(SAFE_PATH)

    def __enter__(self) -> "PreprocessPool":
        if any(side.tokenizer != "none" or side.normalize for side in self.preprocessing):
            os.environ[SAFE_PATH] = "1"
            context = multiprocessing.get_context("spawn")  # because a fork would copy locks that threads hold
            try:
                self.pool = ProcessPoolExecutor(self.cores, mp_context=context, initializer=_end_with_parent)
            except OSError as error:
                log.warning(
                    "one process preprocesses the text, because others cannot be used (%s); their semaphores are files "
                    "in /dev/shm",
                    error.strerror,
                )
        return self

    def __exit__(self, *_) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)
        if self.safe_path_before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = self.safe_path_before

    def preprocess(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the preprocessed pairs in order, also those that have become blank."""
        blocks = split_into_blocks(pairs, BLOCK)
        if self.pool is None:
            for block in blocks:
                yield from _preprocess_block(self.preprocessing, block)
            return
        waiting: deque[Future] = deque()  # bounded, because a fast reader would fill the memory
        try:
            for block in blocks:
                waiting.append(self.pool.submit(_preprocess_block, self.preprocessing, block))
                if len(waiting) > 2 * self.cores:
                    yield from waiting.popleft().result()
            for future in waiting:
                yield from future.result()
        except BrokenProcessPool:
            raise DataError(
                "a process that preprocesses text was killed, perhaps because memory was short. Fix: give the same "
                "command again"
            ) from None


def _end_with_parent() -> None:
    """End this process when its parent is killed; the pool's queue would keep it waiting for ever."""

    def wait() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _preprocess_block(preprocessing: Sides, block: list[SentencePair]) -> list[SentencePair]:
    return [SentencePair(preprocessing.source(source), preprocessing.target(target)) for source, target in block]
