"""Translate a test set."""

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from nmt.errors import DataError
from nmt.evaluation.test_set import TestSet
from nmt.search.settings import Search
from nmt.translate.text_translator import MAX_PIECES, TextTranslator, Translation

log = logging.getLogger(__name__)


class TranslatedSet(NamedTuple):
    """The translations of a test set, one for each pair."""

    translations: list[Translation]
    unreplaced: list[str]  # their words before unknown words were replaced
    in_parts: int  # sentences that were too long to be translated at once
    empty: int  # sources that are empty after preprocessing
    seconds: float

    @property
    def texts(self) -> list[str]:
        """The detokenized translations."""
        return [translation.text for translation in self.translations]

    @property
    def words(self) -> list[str]:
        """The tokenized translations, after unknown words were replaced."""
        return [translation.words for translation in self.translations]


def translate_test_set(
    test: TestSet,
    translator: TextTranslator,
    search: Search,
    batch_size: int,
    replace_unknown: Callable[[Translation], Translation],
    traces: bool,
) -> TranslatedSet:
    """Translate the sources, replace unknown words, and log how many sources are too long or empty."""
    started = time.perf_counter()
    sources = ((pair.source, None) for pair in test.pairs)
    lines = list(translator.translate_lines(sources, search, batch_size=batch_size, traces=traces))
    seconds = time.perf_counter() - started
    if in_parts := sum(line.parts > 1 or line.cut for line in lines):
        message = "%s: %d of %d sentences have more than %d words or pieces and were translated in parts"
        log.warning(message, test.name, in_parts, len(lines), MAX_PIECES)
    empty = sum(not line.translations for line in lines)
    if empty == len(lines):
        raise DataError(
            f"data.test={test.name}: all sources are empty after preprocessing, so there is nothing to score. Fix: "
            "name a test set with text"
        )
    if empty:
        message = "%s: %d of %d sources are empty after preprocessing; their translations are empty"
        log.warning(message, test.name, empty, len(lines))
    translations = [line.translations[0] if line.translations else Translation.empty() for line in lines]
    unreplaced = [translation.words for translation in translations]
    return TranslatedSet(list(map(replace_unknown, translations)), unreplaced, in_parts, empty, seconds)
