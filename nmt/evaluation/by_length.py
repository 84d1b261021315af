"""BLEU and output length by the length of the source sentence, with 95 % confidence intervals.

Statistics are (run, sentence, counts) from `sentence_statistics`. With several runs, scores are the mean over runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nmt.evaluation.bleu import mean_bleu
from nmt.evaluation.significance import confidence_interval, draws

BOUNDS = (10, 20, 30, 40, 50, 60)

Buckets = list[tuple[str, np.ndarray]]  # the name of each bucket, and a mask of its sentences


class LengthBucket(NamedTuple):
    """Sentences of similar length; `low` and `high` bound the interval of BLEU, None for too few sentences.

    Words are the mean per sentence, as BLEU counts them.
    """

    name: str
    sentences: int
    bleu: float
    low: float | None
    high: float | None
    words: float
    reference_words: float
    length_ratio: float


class BucketDifference(NamedTuple):
    """The difference in BLEU to the baseline in a bucket, and its interval."""

    difference: float
    difference_low: float | None
    difference_high: float | None


class LongSentenceGain(NamedTuple):
    """The gain over the baseline on sentences longer than a bound, minus the gain on all other sentences."""

    than: int  # the bound
    sentences: int  # longer than the bound
    difference: float
    difference_low: float | None
    difference_high: float | None


def select_by_length(source_lengths: list[int], bounds: tuple[int, ...] = BOUNDS) -> Buckets:
    """Return the buckets 1–10, 11–20, … source words that have sentences; sources without words are left out."""
    numbers = bucket_numbers(source_lengths, (0, *bounds)) - 1  # −1: a source without words
    names = bucket_names(bounds, first=1)
    return [(name, mask) for number, name in enumerate(names) if (mask := numbers == number).any()]


def select_longer(source_lengths: list[int], bounds: tuple[int, ...] = (0, *BOUNDS)) -> Buckets:
    """Return the buckets of all sources longer than 0, 10, 20, … words; each contains the next (Meng 2016 Figure 4)."""
    masks = ((bound, np.array(source_lengths) > bound) for bound in bounds)
    return [(f">{bound}", mask) for bound, mask in masks if mask.any()]


def describe_buckets(
    buckets: Buckets, statistics: np.ndarray, *, resamples: int = 1000, seed: int = 1
) -> list[LengthBucket]:
    """Return BLEU and length of the sentences of each bucket."""
    samples = ((name, statistics[:, mask], draws(int(mask.sum()), resamples, seed)) for name, mask in buckets)
    return [_make_bucket(name, inside, _resample(inside, times)) for name, inside, times in samples]


def compare_buckets(
    buckets: Buckets, baseline: np.ndarray, systems: Mapping[str, np.ndarray], *, resamples: int = 1000, seed: int = 1
) -> dict[str, list[tuple[LengthBucket, BucketDifference]]]:
    """Return each system's buckets, with differences to the baseline by the same resamples."""
    rows: dict[str, list[tuple[LengthBucket, BucketDifference]]] = {name: [] for name in systems}
    for bucket, mask in buckets:
        times = draws(int(mask.sum()), resamples, seed)
        baseline_bleu = _resample(baseline[:, mask], times)
        for name, statistics in systems.items():
            bleu = _resample(statistics[:, mask], times)
            difference = BucketDifference(*_summarize(bleu - baseline_bleu, times.shape[1]))
            rows[name].append((_make_bucket(bucket, statistics[:, mask], bleu), difference))
    return rows


def compare_longer(
    source_lengths: list[int],
    baseline: np.ndarray,
    systems: Mapping[str, np.ndarray],
    *,
    bounds: tuple[int, ...] = BOUNDS,
    resamples: int = 1000,
    seed: int = 1,
) -> dict[str, list[LongSentenceGain]]:
    """Return each system's gain on longer sentences, for each bound whose bucket has sentences, if longer ones exist.

    Sentences are resampled within each bucket.
    """
    numbers = bucket_numbers(source_lengths, (0, *bounds)) - 1  # −1: a source without words
    used, sizes = (part.tolist() for part in np.unique(numbers[numbers >= 0], return_counts=True))
    masks = [numbers == number for number in used]
    samples = [draws(size, resamples, seed + place) for place, size in enumerate(sizes)]
    baseline_totals = _sum_buckets(baseline, masks, samples)
    gains = {}
    for name, statistics in systems.items():
        totals = _sum_buckets(statistics, masks, samples)
        gains[name] = [
            _gain_on_longer(bounds[number], totals, baseline_totals, sizes, place)
            for place, number in enumerate(used[:-1], start=1)
        ]
    return gains


def _gain_on_longer(
    bound: int, system: np.ndarray, baseline: np.ndarray, sizes: list[int], first: int
) -> LongSentenceGain:
    """Compare the buckets from number `first` on with those before it."""
    shorter, longer = (
        mean_bleu(system[side].sum(0)) - mean_bleu(baseline[side].sum(0)) for side in (slice(first), slice(first, None))
    )
    sentences = sum(sizes[first:])
    return LongSentenceGain(bound, sentences, *_summarize(longer - shorter, min(sentences, sum(sizes[:first]))))


def bucket_numbers(values: Iterable[int], bounds: tuple[int, ...]) -> np.ndarray:
    """Return the bucket of each value; a bound is the greatest value of its bucket, and the last has no bound."""
    return np.searchsorted(bounds, np.array(list(values)), side="left")


def bucket_names(bounds: tuple[int, ...], first: int) -> list[str]:
    """Return the names of buckets, from the smallest value `first`: 1–10, 11–20, …, >60."""
    lowest = [first, *(bound + 1 for bound in bounds)]
    names = [f"{low}–{high}" if low < high else str(high) for low, high in zip(lowest, bounds, strict=False)]
    return [*names, f">{bounds[-1]}"]


def _sum_buckets(statistics: np.ndarray, masks: Sequence[np.ndarray], samples: Sequence[np.ndarray]) -> np.ndarray:
    """Return (bucket, run, 1 + resample, counts): the sums of each bucket, then of each of its resamples."""
    return np.array([_sum_samples(statistics[:, mask], times) for mask, times in zip(masks, samples, strict=True)])


def _sum_samples(statistics: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return (run, 1 + resample, counts): the sums of all sentences, then of each resample."""
    return np.concatenate([statistics.sum(1, keepdims=True), times @ statistics], 1)


def _resample(statistics: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return BLEU of all sentences, then of each resample."""
    return mean_bleu(_sum_samples(statistics, times))


def _make_bucket(name: str, statistics: np.ndarray, bleu: np.ndarray) -> LengthBucket:
    """Describe the sentences of a bucket, with BLEU of all of them and of each resample."""
    sentences = statistics.shape[1]
    words, reference_words = statistics.sum(1)[:, :2].mean(0).tolist()
    return LengthBucket(
        name,
        sentences,
        *_summarize(bleu, sentences),
        words / sentences,
        reference_words / sentences,
        length_ratio=words / reference_words if reference_words else 0.0,
    )


def _summarize(values: np.ndarray, sentences: int) -> tuple[float, float | None, float | None]:
    """Return a value and its interval, of (1 + resample) values."""
    return float(values[0]), *confidence_interval(values[1:], sentences)
