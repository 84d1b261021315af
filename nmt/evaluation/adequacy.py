"""Over- and under-translation: what was said too often, what was left out, what was never looked at."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

UNATTENDED = 0.2  # of total attention, below which a source word counts as never attended to


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
