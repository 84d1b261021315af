"""BLEU and output length by the length of the source sentence, each with how sure it is.

All given (run, sentence, 10) of `sentence_statistics`; of several runs what is told is the mean.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nmt.errors import ConfigurationError
from nmt.evaluation.bleu import mean_bleu
from nmt.evaluation.significance import draws, interval

BOUNDS = (10, 20, 30, 40, 50, 60)
ENOUGH = 20  # sentences, to say by drawing among them how sure their BLEU is


class Bucket(NamedTuple):
    """Sentences of like length; `low` and `high` are BLEU's 95 % interval, None where there are too few.

    Words are those of an average sentence, as BLEU counts them.
    """

    name: str
    sentences: int
    bleu: float
    low: float | None
    high: float | None
    words: float
    reference_words: float
    length_ratio: float


def by_length(
    source_lengths: list[int],
    statistics: np.ndarray,
    *,
    bounds: tuple[int, ...] = BOUNDS,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Bucket]:
    """Of sources of 1–10, 11–20, … words; lengths that no sentence has are left out, and sources without a word."""
    number = np.where(np.array(source_lengths) > 0, bucket_numbers(source_lengths, bounds), -1)
    chosen = ((name, number == place) for place, name in enumerate(bucket_names(bounds, first=1)))
    return _buckets(chosen, source_lengths, statistics, resamples, seed)


def longer_than(
    source_lengths: list[int],
    statistics: np.ndarray,
    *,
    bounds: tuple[int, ...] = (0, *BOUNDS),
    resamples: int = 1000,
    seed: int = 1,
) -> list[Bucket]:
    """Of all sources longer than 0, 10, 20, … words: what is in a bucket is in those before it too (Tu 2016)."""
    chosen = ((f">{bound}", np.array(source_lengths) > bound) for bound in bounds)
    return _buckets(chosen, source_lengths, statistics, resamples, seed)


def bucket_numbers(values: Iterable[int], bounds: tuple[int, ...]) -> np.ndarray:
    """A bound is the greatest value of its bucket; the last bucket has none."""
    if not bounds or list(bounds) != sorted(set(bounds)):
        raise ConfigurationError(f"bounds={list(bounds)}: at least one is needed, each greater than the one before it")
    return np.searchsorted(bounds, np.array(list(values)), side="left")


def bucket_names(bounds: tuple[int, ...], first: int) -> list[str]:
    """From the smallest value there is: 1–10, 11–20, …, >60."""
    smallest = [first, *(bound + 1 for bound in bounds)]
    names = [f"{low}–{high}" if low < high else str(high) for low, high in zip(smallest, bounds, strict=False)]
    return [*names, f">{bounds[-1]}"]


def _buckets(
    chosen: Iterable[tuple[str, np.ndarray]],
    source_lengths: list[int],
    statistics: np.ndarray,
    resamples: int,
    seed: int,
) -> list[Bucket]:
    if len(source_lengths) != statistics.shape[1]:
        raise ValueError(f"{statistics.shape[1]} hypotheses but {len(source_lengths)} source lengths")
    return [_bucket(name, statistics[:, which], resamples, seed) for name, which in chosen if which.any()]


def _bucket(name: str, statistics: np.ndarray, resamples: int, seed: int) -> Bucket:
    sentences = statistics.shape[1]
    totals = statistics.sum(1)
    samples = mean_bleu(draws(sentences, resamples, seed) @ statistics)
    low, high = interval(samples, sentences) if sentences >= ENOUGH else (None, None)
    said, wanted = totals[:, :2].mean(0).tolist()
    ratio = said / wanted if wanted else 0.0
    return Bucket(name, sentences, float(mean_bleu(totals)), low, high, said / sentences, wanted / sentences, ratio)
