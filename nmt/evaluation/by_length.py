"""BLEU and output length by the length of the source sentence, each with how sure it is.

All given (run, sentence, 10) of `sentence_statistics`; of several runs what is told is the mean.
"""

from collections.abc import Iterable, Mapping, Sequence
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


class Apart(NamedTuple):
    """How much more BLEU than the baseline, on the sentences of a bucket; its 95 % interval, where there is one."""

    difference: float
    difference_low: float | None
    difference_high: float | None


class Longer(NamedTuple):
    """How much more a system gains over the baseline on sentences longer than so many words than on all others; the
    95 % interval, where there are enough of both."""

    than: int
    sentences: int
    difference: float
    difference_low: float | None
    difference_high: float | None


def by_length(
    source_lengths: list[int],
    statistics: np.ndarray,
    *,
    bounds: tuple[int, ...] = BOUNDS,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Bucket]:
    """Of sources of 1–10, 11–20, … words; lengths that no sentence has are left out, and sources without a word."""
    return _buckets(_chosen(source_lengths, bounds), source_lengths, statistics, resamples, seed)


def compare_by_length(
    source_lengths: list[int],
    own: np.ndarray,
    systems: Mapping[str, np.ndarray],
    *,
    bounds: tuple[int, ...] = BOUNDS,
    resamples: int = 1000,
    seed: int = 1,
) -> dict[str, list[tuple[Bucket, Apart]]]:
    """The buckets of `by_length` of each system, and in each how far it is from the baseline by the same draws."""
    told: dict[str, list[tuple[Bucket, Apart]]] = {name: [] for name in systems}
    for bucket, which in _chosen(source_lengths, bounds):
        drawn = draws(int(which.sum()), resamples, seed)
        baseline = _drawn(own[:, which], drawn)
        for name, statistics in systems.items():
            system = _drawn(statistics[:, which], drawn)
            told[name].append((_bucket(bucket, system), _apart(baseline, system)))
    return told


def compare_longer(
    source_lengths: list[int],
    own: np.ndarray,
    systems: Mapping[str, np.ndarray],
    *,
    bounds: tuple[int, ...] = BOUNDS,
    resamples: int = 1000,
    seed: int = 1,
) -> dict[str, list[Longer]]:
    """For each bound with sentences on both of its sides, which are drawn anew within each bucket."""
    numbers = _numbers(source_lengths, bounds)
    there = sorted({number for number in numbers.tolist() if number >= 0})
    buckets = [numbers == number for number in there]
    drawn = [draws(int(which.sum()), resamples, seed + place) for place, which in enumerate(buckets)]
    baseline = _totals(own, buckets, drawn)
    told: dict[str, list[Longer]] = {}
    for name, statistics in systems.items():
        gains, system = [], _totals(statistics, buckets, drawn)
        for place, number in enumerate(there[:-1], start=1):
            shorter, longer = (
                mean_bleu(system[side].sum(0)) - mean_bleu(baseline[side].sum(0))
                for side in (slice(place), slice(place, None))
            )
            count = int((numbers > number).sum())
            fewest = min(count, int((numbers >= 0).sum()) - count)
            found, *samples = longer - shorter
            sure = interval(np.array(samples), fewest) if fewest >= ENOUGH else (None, None)
            gains.append(Longer(bounds[number], count, float(found), *sure))
        told[name] = gains
    return told


def longer_than(
    source_lengths: list[int],
    statistics: np.ndarray,
    *,
    bounds: tuple[int, ...] = (0, *BOUNDS),
    resamples: int = 1000,
    seed: int = 1,
) -> list[Bucket]:
    """Of all sources longer than 0, 10, 20, … words: what is in a bucket is in those before it too (Tu 2016)."""
    chosen = [(f">{bound}", np.array(source_lengths) > bound) for bound in bounds]
    there = [(name, which) for name, which in chosen if which.any()]
    return _buckets(there, source_lengths, statistics, resamples, seed)


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


def _numbers(source_lengths: list[int], bounds: tuple[int, ...]) -> np.ndarray:
    """Of each source its bucket, −1 where it has no word."""
    return np.where(np.array(source_lengths) > 0, bucket_numbers(source_lengths, bounds), -1)


def _totals(statistics: np.ndarray, buckets: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> np.ndarray:
    """(bucket, run, 1 + draw, 10): what is counted in each, then what is in each draw from it."""
    inside = [statistics[:, which] for which in buckets]
    return np.stack(
        [np.concatenate([one.sum(1, keepdims=True), times @ one], 1) for times, one in zip(drawn, inside, strict=True)]
    )


def _chosen(source_lengths: list[int], bounds: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    number = _numbers(source_lengths, bounds)
    names = bucket_names(bounds, first=1)
    return [(name, which) for place, name in enumerate(names) if (which := number == place).any()]


def _buckets(
    chosen: Sequence[tuple[str, np.ndarray]],
    source_lengths: list[int],
    statistics: np.ndarray,
    resamples: int,
    seed: int,
) -> list[Bucket]:
    if len(source_lengths) != statistics.shape[1]:
        raise ValueError(f"{statistics.shape[1]} hypotheses but {len(source_lengths)} source lengths")
    found = []
    for name, which in chosen:
        drawn = draws(int(which.sum()), resamples, seed)
        found.append(_bucket(name, _drawn(statistics[:, which], drawn)))
    return found


class Drawn(NamedTuple):
    """Sentences of a bucket: what is counted in each, and the BLEU of such sentences drawn anew."""

    statistics: np.ndarray
    samples: np.ndarray

    @property
    def bleu(self) -> float:
        return float(mean_bleu(self.statistics.sum(1)))

    def interval(self, samples: np.ndarray) -> tuple[float | None, float | None]:
        sentences = self.statistics.shape[1]
        return interval(samples, sentences) if sentences >= ENOUGH else (None, None)


def _drawn(statistics: np.ndarray, drawn: np.ndarray) -> Drawn:
    return Drawn(statistics, mean_bleu(drawn @ statistics))


def _bucket(name: str, system: Drawn) -> Bucket:
    sentences = system.statistics.shape[1]
    said, wanted = system.statistics.sum(1)[:, :2].mean(0).tolist()
    ratio = said / wanted if wanted else 0.0
    sure = system.interval(system.samples)
    return Bucket(name, sentences, system.bleu, *sure, said / sentences, wanted / sentences, ratio)


def _apart(baseline: Drawn, system: Drawn) -> Apart:
    return Apart(system.bleu - baseline.bleu, *system.interval(system.samples - baseline.samples))
