"""A score with its signature, and the references that sacrebleu gets.

References are a list of lines, or several such lists, one for each translator.
"""

from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Score as MetricScore


class Score(NamedTuple):
    """A score; the signature shows how it was counted."""

    score: float
    signature: str
    detail: str


def score_corpus(metric: BLEU | CHRF | TER, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    """Score a text with a sacrebleu metric."""
    return sign_score(metric, metric.corpus_score(hypotheses, prepare_references(hypotheses, references)))


def sign_score(metric: BLEU | CHRF | TER, result: MetricScore) -> Score:
    """Return a result of the metric with its signature."""
    return Score(result.score, str(metric.get_signature()), str(result))


def prepare_references(hypotheses: list[str], references: list[str] | list[list[str]]) -> list[list[str | None]]:
    """Return lists of references as sacrebleu needs them; a blank line is None if the sentence has another reference.

    Raises:
        ValueError: A list has not one line for each hypothesis, or there are no hypotheses.
    """
    lists = [references] if not references or isinstance(references[0], str) else references
    # check lengths, because sacrebleu silently scores only as many sentences as the shortest list has
    for number, lines in enumerate(lists, start=1):
        if len(lines) != len(hypotheses):
            place = f" in list {number} of {len(lists)}" if len(lists) > 1 else ""
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(lines)} references{place}")
    if not hypotheses:
        raise ValueError("0 hypotheses: there is nothing to score")
    if len(lists) == 1:
        return lists
    # None for blank lines, because sacrebleu takes a blank line as a reference of no words
    by_sentence = ([line if line.strip() else None for line in lines] for lines in zip(*lists, strict=True))
    filled = [lines if any(lines) else [""] * len(lines) for lines in by_sentence]
    return [list(lines) for lines in zip(*filled, strict=True)]
