"""Whether rare words are translated: words of the target by how often the training text has them."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nmt.evaluation.by_length import bucket_names, bucket_numbers

BOUNDS = (0, 1, 2, 5, 10, 100, 1000)


class FrequencyBucket(NamedTuple):
    """Words that the training text has this often; the last three in per cent, 0 where there is nothing to share."""

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
    """Sentence by sentence a word matches as often as both have it, wherever it stands; 0 are the unknown words."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    wanted, said, matched = Counter(), Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        own, needed = Counter(hypothesis), Counter(reference)
        said.update(own)
        wanted.update(needed)
        matched.update(own & needed)
    totals = [_totals(words, counts, bounds) for words in (wanted, said, matched)]
    names = bucket_names(bounds, first=0)
    return [_bucket(name, *row) for name, row in zip(names, zip(*totals, strict=True), strict=True) if any(row)]


def _totals(words: Counter, counts: Mapping[str, int], bounds: tuple[int, ...]) -> list[int]:
    """Of each bucket."""
    buckets = bucket_numbers((counts.get(word, 0) for word in words), bounds)
    return np.bincount(buckets, weights=list(words.values()), minlength=len(bounds) + 1).astype(int).tolist()


def _bucket(name: str, wanted: int, said: int, matched: int) -> FrequencyBucket:
    precision, recall = 100 * matched / max(1, said), 100 * matched / max(1, wanted)
    return FrequencyBucket(name, wanted, said, matched, precision, recall, 200 * matched / max(1, said + wanted))
