"""How far alignments of words are from those made by hand: precision, recall and error rate (Och & Ney 2003), of links
and of attention as it is (Tu 2016, §5.1)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nmt.data.word_alignments import Gold, Links

MEASURES = ("aer", "saer")
COUNTS = 4  # |A|, |S|, |A ∩ S|, |A ∩ P|: of each measure


class AlignmentError(NamedTuple):
    """In per cent; `error_rate` is 0 where all sure links are found and none that is not possible."""

    precision: float
    recall: float
    error_rate: float


def alignment_error_rate(links: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links]) -> AlignmentError:
    """Over all sentences together; a sure link is possible as well, whether `possible` names it or not."""
    gold = (Gold(*both) for both in zip(sure, possible, strict=True))
    totals = np.zeros(COUNTS)
    for proposed, wanted in zip(links, gold, strict=True):
        totals += link_counts(proposed, wanted)
    found, wanted, found_sure, found_possible = totals
    return AlignmentError(
        precision=_per_cent(found_possible, found),
        recall=_per_cent(found_sure, wanted),
        error_rate=float(error_rate(totals)),
    )


def link_counts(links: Links, gold: Gold) -> list[float]:
    return [len(links), len(gold.sure), len(links & gold.sure), len(links & (gold.sure | gold.possible))]


def weight_counts(weights: np.ndarray, gold: Gold) -> list[float]:
    """The same of (target words, source words), |·| the sum of a matrix and ∩ the product of two."""
    on_sure, on_possible = (
        sum(float(weights[target, source]) for source, target in links)
        for links in (gold.sure, gold.sure | gold.possible)
    )
    return [float(weights.sum()), len(gold.sure), on_sure, on_possible]


def error_rate(totals: np.ndarray) -> np.ndarray:
    """(…, counts) → (…): 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in per cent; none of nothing."""
    found, sure, on_sure, on_possible = np.moveaxis(totals, -1, 0)
    return 100 - 100 * np.where(found + sure > 0, (on_sure + on_possible) / np.maximum(found + sure, 1e-30), 1.0)


def in_per_cent(totals: np.ndarray) -> np.ndarray:
    """(…, counts of links and of weights) → (…, `MEASURES`)."""
    return np.stack([error_rate(totals[..., :COUNTS]), error_rate(totals[..., COUNTS:])], axis=-1)


def _per_cent(part: float, whole: float) -> float:
    """All of nothing is right."""
    return float(100 * part / whole) if whole else 100.0
