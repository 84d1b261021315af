"""Words the target vocabulary lacks: replaced by what the alignment points at (Luong 2015 §4.1; Sankaran 2016 §6.2)."""

import numpy as np

from nmt.data.lexical_table import WordTable
from nmt.data.preprocessing import Language
from nmt.data.vocabulary import SPECIAL, UNKNOWN
from nmt.errors import ConfigurationError
from nmt.translate.text_translator import Translation

HOW = ("keep", "copy", "translate")


def check_unknown(how: str) -> None:
    if how not in HOW:
        raise ConfigurationError(f"unknown={how}: choose {', '.join(HOW)}")


class UnknownWords:
    """Replaces each <unk> of a translation by the source word with the most weight: by its translation where the table
    has one, by itself where not. Without attention there is nothing to point, and <unk> stays."""

    def __init__(self, target: Language, table: WordTable | None):
        self.target, self.table = target, table

    def __call__(self, translation: Translation) -> Translation:
        if SPECIAL[UNKNOWN] not in translation.target:
            return translation
        words = list(translation.target)
        for place, weights in enumerate(translation.word_alignment()):
            if words[place] == SPECIAL[UNKNOWN] and weights.max(initial=0.0) > 0:
                words[place] = self._instead_of(translation.source[int(np.argmax(weights))])
        said = " ".join(words[: len(translation.word_alignment())])
        return translation._replace(target=words, words=said, text=self.target.preprocessing.restore(said))

    def _instead_of(self, source: str) -> str:
        return (self.table.best(source) if self.table else None) or source
