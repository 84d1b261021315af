"""Over- and under-translation: what was said too often, left out, never looked at; and how wide attention is."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from nmt.evaluation.ribes import ngrams

UNATTENDED = 0.2  # of total attention, below which a source word counts as never attended to
LONGEST = 4  # n-grams that are looked for again
# Words said more often than in the reference, and less often; n-grams said again although it does not say them as often
MEASURES = ("words_too_often", "words_left_out", *(f"repeated_{size}grams" for size in range(1, LONGEST + 1)))


def sentence_counts(hypothesis: list[str], reference: list[str]) -> list[int]:
    """What `MEASURES` count of a sentence, and last the reference's words."""
    said, needed = Counter(hypothesis), Counter(reference)
    again = Counter(size for _, size in _repeated(hypothesis, reference))
    by_size = (again[size] for size in range(1, LONGEST + 1))
    return [(said - needed).total(), (needed - said).total(), *by_size, needed.total()]


def in_per_cent(totals: np.ndarray) -> np.ndarray:
    """(…, measures + 1) → (…, measures): of each 100 of the reference's words."""
    return 100 * totals[..., :-1] / np.maximum(totals[..., -1:], 1)


def over_and_under_translation(hypotheses: Iterable[list[str]], references: Iterable[list[str]]) -> dict[str, float]:
    """`MEASURES`, and how many words of a row belong to what is said again, on average."""
    totals, stretches = np.zeros(len(MEASURES) + 1), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        totals += sentence_counts(hypothesis, reference)
        stretches += _stretches(len(hypothesis), list(_repeated(hypothesis, reference)))
    told = dict(zip(MEASURES, in_per_cent(totals).tolist(), strict=True))
    return told | {"repeated_words_in_a_row": sum(stretches) / max(1, len(stretches))}


def unattended(alignments: Iterable[np.ndarray]) -> dict[str, float]:
    """In per cent of the source words: those that all target words together (the end symbol too) gave less than
    `UNATTENDED`. Alignments are (target, source), without the source's end symbol."""
    without = words = 0
    for alignment in alignments:
        without += int((alignment.sum(0) < UNATTENDED).sum())
        words += alignment.shape[1]
    return {"source_unattended": 100 * without / max(1, words)}


def attention_entropy(alignments: Iterable[np.ndarray]) -> dict[str, float]:
    """In nats: 0 where each target word (the end symbol too) attends to one source word, log n where to n alike. Those
    that attend to nothing, their window beyond the sentence, are left out."""
    total = words = 0.0
    for alignment in alignments:
        attending = alignment[alignment.sum(1) > 0]
        weights = attending / attending.sum(1, keepdims=True)
        total -= float((weights * np.log(weights, where=weights > 0, out=np.zeros_like(weights))).sum())
        words += len(weights)
    return {"attention_entropy": total / max(1, words)}


def _repeated(hypothesis: list[str], reference: list[str]) -> Iterator[tuple[int, int]]:
    """Start and size of each n-gram said before, and by now more often than the reference does."""
    for size in range(1, LONGEST + 1):
        needed, said = Counter(ngrams(reference, size)), Counter()
        for start, gram in enumerate(ngrams(hypothesis, size)):
            if said[gram] >= max(1, needed[gram]):
                yield start, size
            said[gram] += 1


def _stretches(length: int, repeated: list[tuple[int, int]]) -> list[int]:
    """How many words lie in a row within n-grams given by start and size."""
    within = np.zeros(length, dtype=bool)
    for start, size in repeated:
        within[start : start + size] = True
    return [len(list(row)) for inside, row in groupby(within) if inside]
