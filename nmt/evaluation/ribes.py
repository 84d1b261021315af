"""RIBES, a score of word order (Isozaki et al. 2010)."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from math import exp

from nmt.evaluation.bleu import bleu_metric
from nmt.evaluation.corpus_score import Score, prepare_references
from nmt.evaluation.sacrebleu_internals import split_line

ALPHA, BETA = 0.25, 0.10  # exponents of precision and of the brevity penalty
MAX_NGRAM = 50  # words of the longest n-gram; without a limit a word that occurs 3,000 times in a line takes hours


def ribes(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str = "none", lowercase: bool = False
) -> Score:
    """Return RIBES in per cent: for each sentence that of the best reference, then the mean over sentences.

    It is counted as by RIBES.py 1.03, except for the limit `MAX_NGRAM`. Sentences without a reference are left out.
    """
    metric, lists = bleu_metric(tokenize, lowercase), prepare_references(hypotheses, references)
    values = []
    for hypothesis, *lines in zip(hypotheses, *lists, strict=True):
        words, reference_words = split_line(metric, hypothesis), [split_line(metric, line) for line in lines if line]
        if any(reference_words):
            values.append(max(_sentence_ribes(words, reference) for reference in reference_words if reference))
    score = 100 * sum(values) / len(values) if values else 0.0
    case = "lc" if lowercase else "mixed"
    signature = f"nrefs:{len(lists)}|case:{case}|tok:{tokenize}|alpha:{ALPHA:.2f}|beta:{BETA:.2f}"
    return Score(score, signature, f"RIBES = {score:.2f} over {len(values)} sentences")


def _sentence_ribes(hypothesis: list[str], reference: list[str]) -> float:
    ranks = _rank_words(hypothesis, reference)
    if not ranks or len(ranks) == 1 < len(reference):
        return 0.0  # one word has no order, except if the reference is this word
    pairs = [first < second for first, second in combinations(ranks, 2)]
    ascending = sum(pairs) / len(pairs) if pairs else 1.0
    precision = len(ranks) / len(hypothesis)
    brevity = min(1.0, exp(1 - len(reference) / len(hypothesis)))
    return ascending * precision**ALPHA * brevity**BETA


def _rank_words(hypothesis: list[str], reference: list[str]) -> list[int]:
    """Return the positions of the hypothesis' words in the reference, without words that have no clear position."""

    @cache
    def count_ngrams(size: int) -> tuple[Counter, dict[tuple[str, ...], list[int]]]:
        return Counter(ngrams(hypothesis, size)), _find_ngrams(reference, size)

    ranks = (_find_word(position, hypothesis, count_ngrams) for position in range(len(hypothesis)))
    return [rank for rank in ranks if rank is not None]


def _find_word(position: int, hypothesis: list[str], count_ngrams: Callable) -> int | None:
    """Return the word's position in the reference, or None.

    It is found by the shortest n-gram that ends or begins with the word and occurs once in both sentences.
    """
    for size in range(1, min(len(hypothesis), MAX_NGRAM) + 1):
        counts, positions = count_ngrams(size)
        in_reference = False
        for start in (position - size + 1, position):
            if start < 0 or start + size > len(hypothesis):
                continue
            ngram = tuple(hypothesis[start : start + size])
            if counts[ngram] == len(positions.get(ngram, ())) == 1:
                return positions[ngram][0] + position - start
            in_reference |= ngram in positions
        if not in_reference:
            return None  # no longer n-gram can be in the reference
    return None


def ngrams(words: list[str], size: int) -> list[tuple[str, ...]]:
    """Return the n-grams of a size, in order."""
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def _find_ngrams(words: list[str], size: int) -> dict[tuple[str, ...], list[int]]:
    positions: dict[tuple[str, ...], list[int]] = {}
    for start, ngram in enumerate(ngrams(words, size)):
        positions.setdefault(ngram, []).append(start)
    return positions
