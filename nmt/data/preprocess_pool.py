"""Preprocess sentence pairs in several processes."""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from nmt.data.parallel_text import Line, Sides
from nmt.data.text_files import in_blocks
from nmt.system.hardware import cores

BLOCK = 4096  # pairs handled at once


class Workers:
    """Preprocesses pairs, in as many processes as there are cores where the work is worth sending."""

    def __init__(self, preprocessing: Sides):
        self.preprocessing = preprocessing
        self.cores = cores()
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        if any(side.tokenizer != "none" or side.normalize for side in self.preprocessing):
            context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks
            self.pool = ProcessPoolExecutor(self.cores, mp_context=context)
        return self

    def __exit__(self, *_) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)

    def read(self, pairs: Iterable[Line]) -> Iterator[Line]:
        """Preprocessed, in order; those that this leaves blank included."""
        blocks = in_blocks(pairs, BLOCK)
        if self.pool is None:
            for block in blocks:
                yield from _preprocess(self.preprocessing, block)
            return
        waiting: deque[Future] = deque()  # bounded, so that a fast reader does not fill the memory
        for block in blocks:
            waiting.append(self.pool.submit(_preprocess, self.preprocessing, block))
            if len(waiting) > 2 * self.cores:
                yield from waiting.popleft().result()
        for done in waiting:
            yield from done.result()


def _preprocess(preprocessing: Sides, block: list[Line]) -> list[Line]:
    return [Line(preprocessing.source(source), preprocessing.target(target)) for source, target in block]
