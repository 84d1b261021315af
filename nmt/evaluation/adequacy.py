"""Over- and under-translation: what was said too often, what was left out, what was never looked at."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from nmt.evaluation.bleu import ngrams

UNATTENDED = 0.2  # of total attention, below which a source word counts as never attended to
LONGEST = 4  # n-grams that are looked for again


def over_and_under_translation(
    hypotheses: Iterable[list[str]], references: Iterable[list[str]], alignments: Iterable[np.ndarray]
) -> dict[str, float]:
    """In per cent of the reference's words: produced more often than there, and less often. In per cent of the source
    words: those that all target words together (the end symbol too) gave less than `UNATTENDED`.

    Alignments are (target, source), without the source's end symbol.
    """
    too_often = left_out = wanted = unattended = source_words = 0
    for hypothesis, reference, alignment in zip(hypotheses, references, alignments, strict=True):
        said, needed = Counter(hypothesis), Counter(reference)
        too_often += (said - needed).total()
        left_out += (needed - said).total()
        wanted += needed.total()
        unattended += int((alignment.sum(0) < UNATTENDED).sum())
        source_words += alignment.shape[1]
    return {
        "words_too_often": 100 * too_often / max(1, wanted),
        "words_left_out": 100 * left_out / max(1, wanted),
        "source_unattended": 100 * unattended / max(1, source_words),
    }


def repetition(hypotheses: Iterable[list[str]], references: Iterable[list[str]]) -> dict[str, float]:
    """What is said again although the reference does not say it as often: 1- to 4-grams in each 100 of the reference's
    words, and how many words of a row belong to one of these, on average."""
    again, wanted, stretches = Counter(), 0, []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        repeated = list(_repeated(hypothesis, reference))
        again.update(size for _, size in repeated)
        wanted += len(reference)
        stretches += _stretches(len(hypothesis), repeated)
    counts = {f"repeated_{size}grams": 100 * again[size] / max(1, wanted) for size in range(1, LONGEST + 1)}
    return counts | {"repeated_words_in_a_row": sum(stretches) / max(1, len(stretches))}


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
