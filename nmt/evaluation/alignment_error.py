"""How far alignments of words are from those made by hand: precision, recall and error rate (Och & Ney 2003)."""

from collections.abc import Iterable
from typing import NamedTuple

from nmt.data.links import Links


class AlignmentError(NamedTuple):
    """In per cent; `error_rate` is 0 where all sure links are found and none that is not possible."""

    precision: float
    recall: float
    error_rate: float


def alignment_error_rate(links: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links]) -> AlignmentError:
    """Over all sentences together; a sure link is possible as well, whether `possible` names it or not."""
    found = wanted = found_sure = found_possible = 0
    for proposed, certain, permitted in zip(links, sure, possible, strict=True):
        found += len(proposed)
        wanted += len(certain)
        found_sure += len(proposed & certain)
        found_possible += len(proposed & (certain | permitted))
    return AlignmentError(
        precision=_per_cent(found_possible, found),
        recall=_per_cent(found_sure, wanted),
        error_rate=100 - _per_cent(found_sure + found_possible, found + wanted),
    )


def _per_cent(part: int, whole: int) -> float:
    """All of nothing is right."""
    return 100 * part / whole if whole else 100.0
