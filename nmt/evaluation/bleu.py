"""BLEU and its variants, counted by sacrebleu (Papineni et al. 2002)."""

import logging

import numpy as np
from sacrebleu.metrics import BLEU

from nmt.errors import ConfigurationError
from nmt.evaluation.corpus_score import Score, prepare_references, score_corpus
from nmt.evaluation.sacrebleu_internals import NistBLEU, count_statistics, split_line
from nmt.runs.folder import section_of_test

log = logging.getLogger(__name__)

LOW = 1.0  # a BLEU below which hardly a word is right
ORDER = 4  # of BLEU's n-grams

VARIANTS = {
    "13a": lambda: BLEU(tokenize="13a", force=True),  # mteval-v13a, cased
    "lowercase": lambda: BLEU(tokenize="13a", lowercase=True, force=True),
    "nist": NistBLEU,
    "zh": lambda: BLEU(tokenize="zh", force=True),
    "char": lambda: BLEU(tokenize="char", force=True),
}


def warn_of_low_bleu(test: str, bleu: float) -> None:
    """Log the likely causes of a BLEU near 0 on a test set, or on the validation set `valid`."""
    if bleu < LOW:
        message = (
            "%s: BLEU %.2f, so hardly a word is right. Fix: train longer (trainer.max_epochs=…), try another "
            "optimizer.lr=…, and check that the lines of %s.source and %s.target belong together and are not swapped"
        )
        section = section_of_test(test)
        log.warning(message, test, bleu, section, section)


def bleu_metric(tokenize: str, lowercase: bool) -> BLEU:
    """Return sacrebleu's metric for a tokenizer, after a check that the tokenizer can be used."""
    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigurationError(f"tokenize={tokenize}: no such tokenizer. Fix: choose {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError) as error:  # a package is not installed; the message has several lines
        raise ConfigurationError(f"tokenize={tokenize}: {' '.join(str(error).split())}") from error


def corpus_bleu(hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    """Return the BLEU of a text that is tokenized already."""
    return score_corpus(bleu_metric("none", lowercase=False), hypotheses, references)


def bleu_variant(variant: str, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    """Return one of `VARIANTS` for detokenized text."""
    return score_corpus(VARIANTS[variant](), hypotheses, references)


def sentence_statistics(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str, lowercase: bool
) -> np.ndarray:
    """Return (sentence, counts): the counts of each sentence, whose sums make the BLEU of a text.

    They are words, words of the closest reference, matching n-grams of each order, and n-grams of each order.
    """
    metric = bleu_metric(tokenize, lowercase)
    return np.array(count_statistics(metric, hypotheses, prepare_references(hypotheses, references)))


def split_words(lines: list[str], *, tokenize: str, lowercase: bool) -> list[list[str]]:
    """Split lines into words as BLEU does."""
    metric = bleu_metric(tokenize, lowercase)
    return [split_line(metric, line) for line in lines]


def bleu_from_totals(totals: np.ndarray) -> np.ndarray:
    """Return the BLEU of each corpus from its summed statistics: (…, counts) → (…).

    It equals sacrebleu's `compute_bleu` with the smoothing "exp", for all corpora at once. To call that for each of
    10,000 resamples would take most of a comparison's time.
    """
    words, reference_words, *_ = np.moveaxis(totals, -1, 0)
    matches, ngrams = totals[..., 2 : 2 + ORDER], totals[..., 2 + ORDER :]
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, -1))  # smoothing "exp": 1/2, 1/4, …
    with np.errstate(divide="ignore", invalid="ignore"):  # of corpora without words or n-grams, whose score is 0
        brevity_penalty = np.exp(np.minimum(0, 1 - reference_words / words))
        scores = 100 * brevity_penalty * np.exp(np.log(smoothed / ngrams).mean(-1))
    return np.where((matches > 0).any(-1) & (ngrams > 0).all(-1), scores, 0.0)


def mean_bleu(totals: np.ndarray) -> np.ndarray:
    """Return the mean BLEU over runs: (run, …, counts) → (…)."""
    return bleu_from_totals(totals).mean(0)
