"""Precision, recall and F1 of target words by their frequency in the training text: are rare words translated?"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nmt.evaluation.by_length import bucket_names, bucket_numbers

BOUNDS = (0, 1, 2, 5, 10, 100, 1000)


class FrequencyBucket(NamedTuple):
    """Words with similar frequency; rates are in per cent, and 0 if there are no words to divide by."""

    name: str
    reference_words: int
    hypothesis_words: int
    matched: int
    precision: float
    recall: float
    f1: float


def by_frequency(
    hypotheses: list[list[str]],
    references: list[list[str]],
    counts: Mapping[str, int],
    *,
    bounds: tuple[int, ...] = BOUNDS,
) -> list[FrequencyBucket]:
    """Return the rates of each bucket that has words.

    A word matches as often as both sentences contain it, at any position. A bound is the last frequency of its bucket;
    unknown words have frequency 0.
    """
    reference_words, hypothesis_words, matched = Counter(), Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        hypothesis_counts, reference_counts = Counter(hypothesis), Counter(reference)
        hypothesis_words.update(hypothesis_counts)
        reference_words.update(reference_counts)
        matched.update(hypothesis_counts & reference_counts)
    totals = [_sum_buckets(words, counts, bounds) for words in (reference_words, hypothesis_words, matched)]
    rows = zip(bucket_names(bounds, first=0), *totals, strict=True)
    return [_make_bucket(*row) for row in rows if any(row[1:])]


def _sum_buckets(words: Counter, counts: Mapping[str, int], bounds: tuple[int, ...]) -> list[int]:
    buckets = bucket_numbers((counts.get(word, 0) for word in words), bounds)
    return np.bincount(buckets, weights=list(words.values()), minlength=len(bounds) + 1).astype(int).tolist()


def _make_bucket(name: str, reference_words: int, hypothesis_words: int, matched: int) -> FrequencyBucket:
    precision, recall = 100 * matched / max(1, hypothesis_words), 100 * matched / max(1, reference_words)
    f1 = 200 * matched / max(1, hypothesis_words + reference_words)
    return FrequencyBucket(name, reference_words, hypothesis_words, matched, precision, recall, f1)
