"""BLEU and its kin by sacrebleu, always with the signature that says how it was counted."""

from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER


class Score(NamedTuple):
    score: float
    signature: str
    detail: str


def corpus_bleu(
    hypotheses: list[str], references: list[str], *, tokenize: str = "none", lowercase: bool = False
) -> Score:
    """`tokenize: none` compares the words as they stand: for text that is tokenised already."""
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _scored(metric, hypotheses, references)


def corpus_scores(hypotheses: list[str], references: list[str], *, tokenize: str, lowercase: bool) -> dict[str, Score]:
    """Of detokenised text against untouched references."""
    return {
        "bleu": corpus_bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
        "chrf": _scored(CHRF(lowercase=lowercase), hypotheses, references),
        "ter": _scored(TER(case_sensitive=not lowercase), hypotheses, references),
    }


def _scored(metric: BLEU | CHRF | TER, hypotheses: list[str], references: list[str]) -> Score:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.score, str(metric.get_signature()), str(result))
