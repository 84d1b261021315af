"""Over- and under-translation: words repeated or left out, source words without attention, and attention entropy."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from nmt.evaluation.ribes import ngrams

UNATTENDED = 0.2  # a source word with less attention than this, over all target words, is unattended
MAX_NGRAM = 4  # words of the longest repeated n-gram
# words that occur more often than in the reference; words that occur less often; repeated n-grams
MEASURES = ("words_too_often", "words_left_out", *(f"repeated_{size}grams" for size in range(1, MAX_NGRAM + 1)))


def count_errors(hypothesis: list[str], reference: list[str]) -> list[int]:
    """Count each of `MEASURES` in a sentence, and last the words of the reference."""
    words, reference_words = Counter(hypothesis), Counter(reference)
    repetitions = Counter(size for _, size in _find_repetitions(hypothesis, reference))
    by_size = (repetitions[size] for size in range(1, MAX_NGRAM + 1))
    return [(words - reference_words).total(), (reference_words - words).total(), *by_size, reference_words.total()]


def compute_measures(totals: np.ndarray) -> np.ndarray:
    """Return `MEASURES` per 100 words of the reference: (…, measures + 1) → (…, measures)."""
    return 100 * totals[..., :-1] / np.maximum(totals[..., -1:], 1)


def over_and_under_translation(hypotheses: Iterable[list[str]], references: Iterable[list[str]]) -> dict[str, float]:
    """Return `MEASURES` of a text, and the mean length of its repeated passages in words."""
    totals, lengths = np.zeros(len(MEASURES) + 1), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        totals += count_errors(hypothesis, reference)
        lengths += _measure_passages(len(hypothesis), _find_repetitions(hypothesis, reference))
    measures = dict(zip(MEASURES, compute_measures(totals).tolist(), strict=True))
    return measures | {"repeated_words_in_a_row": sum(lengths) / max(1, len(lengths))}


def unattended_words(alignments: Iterable[np.ndarray]) -> dict[str, float]:
    """Return the per cent of source words that get less attention than `UNATTENDED` from all target words together.

    Alignments are (target with the end symbol, source without it).
    """
    unattended = words = 0
    for alignment in alignments:
        unattended += int((alignment.sum(0) < UNATTENDED).sum())
        words += alignment.shape[1]
    return {"source_unattended": 100 * unattended / max(1, words)}


def attention_entropy(alignments: Iterable[np.ndarray]) -> dict[str, float]:
    """Return the mean entropy of attention in nats, over target words and end symbols.

    It is 0 for attention to one source word, and log n for equal attention to n words. Target words that attend to
    nothing, because their window lies beyond the sentence, are left out.
    """
    total = words = 0.0
    for alignment in alignments:
        attending = alignment[alignment.sum(1) > 0]
        weights = attending / attending.sum(1, keepdims=True)
        total -= float((weights * np.log(weights, where=weights > 0, out=np.zeros_like(weights))).sum())
        words += len(weights)
    return {"attention_entropy": total / max(1, words)}


def _find_repetitions(hypothesis: list[str], reference: list[str]) -> Iterator[tuple[int, int]]:
    """Yield start and size of each n-gram that occurred before, and already as often as in the reference."""
    for size in range(1, MAX_NGRAM + 1):
        allowed, seen = Counter(ngrams(reference, size)), Counter()
        for start, ngram in enumerate(ngrams(hypothesis, size)):
            if seen[ngram] >= max(1, allowed[ngram]):
                yield start, size
            seen[ngram] += 1


def _measure_passages(length: int, repetitions: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lengths of the passages of a sentence that repeated n-grams cover."""
    repeated = np.zeros(length, dtype=bool)
    for start, size in repetitions:
        repeated[start : start + size] = True
    return [len(list(words)) for is_repeated, words in groupby(repeated) if is_repeated]
