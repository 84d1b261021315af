"""Preprocess sentence pairs in several processes."""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.text_files import split_into_blocks
from nmt.system.hardware import available_cores

BLOCK = 4096  # pairs sent to a process at once


class PreprocessPool:
    """One process a core, if the preprocessing takes longer than sending text to a process."""

    def __init__(self, preprocessing: Sides):
        self.preprocessing = preprocessing
        self.cores = available_cores()
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "PreprocessPool":
        if any(side.tokenizer != "none" or side.normalize for side in self.preprocessing):
            context = multiprocessing.get_context("spawn")  # because a fork would copy locks that threads hold
            self.pool = ProcessPoolExecutor(self.cores, mp_context=context)
        return self

    def __exit__(self, *_) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)

    def preprocess(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the preprocessed pairs in order, also those that have become blank."""
        blocks = split_into_blocks(pairs, BLOCK)
        if self.pool is None:
            for block in blocks:
                yield from _preprocess_block(self.preprocessing, block)
            return
        waiting: deque[Future] = deque()  # bounded, because a fast reader would fill the memory
        for block in blocks:
            waiting.append(self.pool.submit(_preprocess_block, self.preprocessing, block))
            if len(waiting) > 2 * self.cores:
                yield from waiting.popleft().result()
        for future in waiting:
            yield from future.result()


def _preprocess_block(preprocessing: Sides, block: list[SentencePair]) -> list[SentencePair]:
    return [SentencePair(preprocessing.source(source), preprocessing.target(target)) for source, target in block]
