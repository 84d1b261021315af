"""BLEU and its kin by sacrebleu, always with the signature that says how it was counted; RIBES, which it lacks.

References are a list of lines, or several such lists, one for each translator.
"""

import string
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Score as MetricScore
from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEUScore

from nmt.errors import ConfigurationError

ORDER = 4  # of BLEU's n-grams


ASCII_LOWERCASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Score(NamedTuple):
    score: float
    signature: str
    detail: str


class NistBLEU(BLEU):
    """mteval-v11b: the shortest reference decides on brevity, nothing is smoothed, and only A–Z are lowercased.

    Its words are those of `13a`: mteval-v13a took over v11b's tokenisation, but lets the closest reference decide.
    """

    def __init__(self):
        super().__init__(tokenize="13a", smooth_method="none", force=True)

    def _preprocess_segment(self, sent: str) -> str:
        return super()._preprocess_segment(sent.translate(ASCII_LOWERCASE))

    def _get_closest_ref_len(self, hyp_len: int, ref_lens: list[int]) -> int:
        return min(ref_lens)

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.update("case", "lc-ascii")
        signature.update("bp", "shortest")
        return signature


def counter(tokenize: str, lowercase: bool) -> BLEU:
    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigurationError(f"tokenize={tokenize}: choose {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError) as error:  # a package that is not installed; told in several lines
        raise ConfigurationError(f"tokenize={tokenize}: {' '.join(str(error).split())}") from error


FLAVOURS = {
    "13a": lambda: BLEU(tokenize="13a", force=True),  # mteval-v13a, cased
    "lowercase": lambda: BLEU(tokenize="13a", lowercase=True, force=True),
    "nist": NistBLEU,
    "zh": lambda: BLEU(tokenize="zh", force=True),
    "char": lambda: BLEU(tokenize="char", force=True),
}


def corpus_bleu(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str = "none", lowercase: bool = False
) -> Score:
    """`tokenize: none` compares the words as they stand: for text that is tokenised already."""
    return _scored(counter(tokenize, lowercase), hypotheses, references)


def flavoured_bleu(flavour: str, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    """BLEU of text as a person would read it, counted as a named script does."""
    return _scored(FLAVOURS[flavour](), hypotheses, references)


def sentence_statistics(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str, lowercase: bool
) -> np.ndarray:
    """(sentence, 10): words, words of the closest reference, matching n-grams, n-grams; their sums make BLEU."""
    metric = counter(tokenize, lowercase)
    return np.array(metric._extract_corpus_statistics(hypotheses, _checked(hypotheses, references)))


def words_of(lines: list[str], *, tokenize: str, lowercase: bool) -> list[list[str]]:
    """As BLEU counts them."""
    metric = counter(tokenize, lowercase)
    return [metric._preprocess_segment(line.rstrip()).split() for line in lines]


def bleu_score(totals: np.ndarray) -> BLEUScore:
    """Of summed statistics, smoothed as sacrebleu does."""
    said, wanted, *counts = np.asarray(totals).tolist()
    return BLEU.compute_bleu(counts[:ORDER], counts[ORDER:], int(said), int(wanted), smooth_method="exp")


def bleu_of(totals: np.ndarray) -> np.ndarray:
    """(…, 10) → BLEU of each corpus."""
    return np.array([bleu_score(row).score for row in totals.reshape(-1, 10)]).reshape(totals.shape[:-1])


def mean_bleu(totals: np.ndarray) -> np.ndarray:
    """(run, …, 10) → BLEU, the mean over runs."""
    return bleu_of(totals).mean(0)


def _scored(metric: BLEU | CHRF | TER, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    return _as_score(metric, metric.corpus_score(hypotheses, _checked(hypotheses, references)))


def _as_score(metric: BLEU | CHRF | TER, result: MetricScore) -> Score:
    return Score(result.score, str(metric.get_signature()), str(result))


def _checked(hypotheses: list[str], references: list[str] | list[list[str]]) -> list[list[str | None]]:
    """Several lists of references: sacrebleu scores as many sentences as the shortest list has, and says nothing. A
    blank line is no reference where the sentence has another; sacrebleu takes it for one of no words."""
    lists = [references] if not references or isinstance(references[0], str) else references
    for number, lines in enumerate(lists, start=1):
        if len(lines) != len(hypotheses):
            which = f" in list {number} of {len(lists)}" if len(lists) > 1 else ""
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(lines)} references{which}")
    if not hypotheses:
        raise ValueError("0 hypotheses: there is nothing to score")
    if len(lists) == 1:
        return lists
    of_sentences = ([line if line.strip() else None for line in given] for given in zip(*lists, strict=True))
    there = [given if any(given) else [""] * len(given) for given in of_sentences]
    return [list(lines) for lines in zip(*there, strict=True)]
