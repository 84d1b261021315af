"""The plan of an epoch: its sentences, cut into batches.

The order depends on seed and epoch only. Memory is 4 bytes for each sentence, and 8 while all of them are sorted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nmt.data.parallel_text import Sides
from nmt.errors import ConfigurationError

BLOCK = 1 << 18  # sentences whose lengths are in memory at once

Lengths = Callable[[np.ndarray], np.ndarray]  # sentences to one number of words each


@dataclass(frozen=True)
class Epoch:
    """The batches of an epoch; item k is the k-th of its batches, as positions in the corpus."""

    sentences: np.ndarray  # (sentences,) int32, batch after batch
    starts: np.ndarray  # (batches + 1,) where in `sentences` each batch begins
    order: np.ndarray  # (batches,) the order in which the batches are trained on

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> np.ndarray:
        batch = self.order[index]
        return self.sentences[self.starts[batch] : self.starts[batch + 1]]


class BatchPlan:
    """Cut an epoch into batches of sentences of similar length.

    Args:
        unit: `sentences`: a batch has `size` pairs. `tokens`: a batch has as many pairs as fit into `size` padded
            words of their longer side.
        size: The size of a batch, over all ranks.
        pool: For `sentences`: how many batches are drawn at random and sorted by length together. 0 sorts the corpus.
        multiple: Sources and targets are padded to a multiple of it, so that fewer shapes occur (`graphs`); `size` does
            not count this padding.
    """

    def __init__(self, *, unit: str, size: int, pool: int = 0, multiple: int = 1):
        if unit not in ("sentences", "tokens"):
            raise ConfigurationError(f"{_either('unit', unit)}: unknown unit. Fix: choose sentences or tokens")
        for key, value, least in (("size", size, 1), ("pool", pool, 0), ("multiple", multiple, 1)):
            if value < least:
                raise ConfigurationError(f"{_either(key, value)}: must be at least {least}")
        self.unit, self.size, self.pool, self.multiple = unit, size, pool, multiple

    def make_epoch(self, sentences: np.ndarray, text: Sides, *, seed: int, epoch: int) -> Epoch:
        """Return the batches of an epoch, in random order; `sentences` is reordered in place."""
        random = np.random.default_rng([seed, epoch])
        random.shuffle(sentences)
        cut = self._cut_by_tokens if self.unit == "tokens" else self._cut_by_sentences
        starts = cut(sentences, text)
        return Epoch(sentences, starts, random.permutation(len(starts) - 1))

    def _cut_by_sentences(self, sentences: np.ndarray, text: Sides) -> np.ndarray:
        if self.pool == 0:
            sort_by(text.source.lengths, sentences)
            sort_by(text.target.lengths, sentences)
        else:
            for start in range(0, len(sentences), self.pool * self.size):
                pool = sentences[start : start + self.pool * self.size]
                pool[:] = pool[np.lexsort((text.source.lengths(pool), text.target.lengths(pool)))]
        return np.append(np.arange(0, len(sentences), self.size), len(sentences))

    def _cut_by_tokens(self, sentences: np.ndarray, text: Sides) -> np.ndarray:
        def longer(drawn: np.ndarray) -> np.ndarray:
            return np.maximum(text.source.lengths(drawn), text.target.lengths(drawn)) + 1

        sort_by(longer, sentences)
        longest = longer(sentences[-1:]).max(initial=0)
        if longest > self.size:
            raise ConfigurationError(
                f"{_either('size', self.size)}: the longest sentence has {longest} tokens and does not fit. Fix: raise "
                "it; data.max_length leaves out longer pairs of the training text"
            )
        starts = [0]
        while (start := starts[-1]) < len(sentences):
            limit = self.size // longer(sentences[start : start + 1])[0]  # because all later ones are as long or longer
            lengths = longer(sentences[start : start + limit])
            starts.append(start + int((np.arange(1, len(lengths) + 1) * lengths <= self.size).sum()))
        return np.array(starts)


def _either(key: str, value: object) -> str:
    """Name a setting; a plan does not know whether it is for training or for validation."""
    return f"data.batches.{key}={value} or data.valid_batches.{key}={value}"


def short_sentences(text: Sides, longest: int | None) -> np.ndarray:
    """Return the positions of the pairs with words, and at most `longest` words on each side."""
    short, count = np.empty(len(text.source), dtype=np.int32), 0
    for start in range(0, len(short), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(short)), dtype=np.int32)
        longer = np.maximum(text.source.lengths(block), text.target.lengths(block))
        block = block[(longer > 0) & (longer <= (np.inf if longest is None else longest))]
        short[count : count + len(block)] = block
        count += len(block)
    return short[:count]


def sort_by(lengths: Lengths, sentences: np.ndarray) -> None:
    """Sort sentences in place from short to long; equally long ones keep their order (a counting sort, by blocks)."""
    counts = np.zeros(1, dtype=np.int64)
    for block in _blocks(sentences):
        more = np.bincount(lengths(block))
        counts = np.pad(counts, (0, max(0, len(more) - len(counts))))
        counts[: len(more)] += more
    free = np.cumsum(counts) - counts  # the first free place for each length
    placed = np.empty_like(sentences)
    for block in _blocks(sentences):
        numbers = lengths(block)
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        rank = np.arange(len(block)) - np.searchsorted(numbers, numbers)  # among those of its length
        placed[free[numbers] + rank] = block[order]
        more = np.bincount(numbers)
        free[: len(more)] += more
    sentences[:] = placed


def _blocks(sentences: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(sentences), BLOCK):
        yield sentences[start : start + BLOCK]
