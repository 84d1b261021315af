"""Replace unknown words by what the alignment points to (Luong 2015 §4.2; Sankaran 2016 §6.2)."""

from collections.abc import Callable, Sequence

import numpy as np

from nmt.data.lexical_table import LexicalTable
from nmt.data.preprocessing import Language
from nmt.data.vocabulary import SPECIAL, UNKNOWN
from nmt.errors import ConfigurationError
from nmt.runs.trained_model import TrainedRun
from nmt.translate.text_translator import Translation

MODES = ("keep", "copy", "translate")


def check_unknown(mode: str, key: str = "unknown") -> None:
    """Raise an error if KEY=MODE is not one of the modes."""
    if mode not in MODES:
        raise ConfigurationError(f"{key}={mode}: no such mode. Fix: {key}=keep, {key}=copy or {key}=translate")


def make_replacer(
    run: TrainedRun, mode: str, data_overrides: Sequence[str] = ()
) -> Callable[[Translation], Translation]:
    """Return the function that treats unknown words as `unknown=MODE` says.

    Args:
        run: The run whose target language and word table are used.
        mode: `keep`, `copy` or `translate`.
        data_overrides: Where the training text is now, if the word table must still be learned.
    """
    check_unknown(mode)
    if mode == "keep":
        return lambda translation: translation
    return UnknownWords(run.languages.target, run.word_table(data_overrides) if mode == "translate" else None)


class UnknownWords:
    """Replaces each <unk> by the source word with the most attention, or by that word's translation in a table.

    A source word that the table does not contain is copied. Without attention <unk> stays.
    """

    def __init__(self, target: Language, table: LexicalTable | None):
        self.target, self.table = target, table

    def __call__(self, translation: Translation) -> Translation:
        """Return the translation without unknown words, as far as attention points to a source word."""
        if SPECIAL[UNKNOWN] not in translation.target:
            return translation
        target, alignment = list(translation.target), translation.word_alignment()
        for place, weights in enumerate(alignment):
            if target[place] == SPECIAL[UNKNOWN] and weights.max(initial=0.0) > 0:
                source = translation.source[int(np.argmax(weights))]
                target[place] = (self.table.best(source) if self.table else None) or source
        words = " ".join(target[: len(alignment)])
        return translation._replace(target=target, words=words, text=self.target.preprocessing.restore(words))
