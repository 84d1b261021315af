"""Translating lines of text: in batches of like length, in the order they came."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nmt.data.batches import pad_rows, pad_source
from nmt.data.corpus import in_blocks
from nmt.data.prepared import Sides
from nmt.data.vocabulary import END, SPECIAL
from nmt.model.translator import Translator
from nmt.search.alignment import to_words
from nmt.search.beam import Hypothesis, Search, search
from nmt.search.ensemble import Ensemble

READ_AHEAD = 20  # batches sorted together


class Translation(NamedTuple):
    """One translation of a line. Words and alignment may end with the end symbol, where the model saw or made one."""

    source: list[str]
    target: list[str]
    text: str  # as a person would write it
    words: str  # as the model sees it, without the end symbol
    score: float
    log_probability: float
    alignment: np.ndarray  # (target, source)

    def word_alignment(self) -> np.ndarray:
        """Without the end symbols."""
        rows, columns = (sum(word != SPECIAL[END] for word in side) for side in (self.target, self.source))
        return self.alignment[:rows, :columns]


class TextTranslator:
    """A model, or several as one, with its languages: text in, text out."""

    def __init__(self, model: Translator | Ensemble, languages: Sides, *, source_end: bool, device: str = "cpu"):
        self.model = model.to(device).eval()
        self.languages, self.source_end, self.device = languages, source_end, device

    def __call__(self, lines: Iterable[str], how: Search, *, batch_size: int = 64) -> Iterator[list[Translation]]:
        """The n best translations of each line, in order; a blank line has none."""
        for block in in_blocks(lines, READ_AHEAD * batch_size):
            yield from self._block(block, how, batch_size)

    def _block(self, lines: list[str], how: Search, batch_size: int) -> list[list[Translation]]:
        lines = [self.languages.source.preprocessing(line) for line in lines]
        rows = self.languages.source.vocabulary.encode(lines)
        found: list[list[Translation]] = [[] for _ in lines]
        order = [index for index in np.argsort([len(row) for row in rows], kind="stable") if len(rows[index])]
        for batch in in_blocks(order, batch_size):
            source, lengths = pad_source(*pad_rows([rows[index] for index in batch]), source_end=self.source_end)
            for index, hypotheses in zip(batch, search(self.model, source.to(self.device), lengths, how), strict=True):
                found[index] = [self.spell(lines[index], rows[index], hypothesis) for hypothesis in hypotheses]
        return found

    def spell(self, line: str, source: np.ndarray, best: Hypothesis) -> Translation:
        """A hypothesis in words, beside those of the line, which the vocabulary may not know."""
        ends = best.alignment.shape[1] > len(source), best.alignment.shape[0] > len(best.words)
        words, places = [], []
        for language, numbers, ended in zip(self.languages, (source, best.words), ends, strict=True):
            spelled = language.vocabulary.words(numbers)
            words.append(spelled + [SPECIAL[END]] * ended)
            places.append(language.vocabulary.word_of_piece(numbers) + [len(spelled)] * ended)
        if len(known := line.split()) == len(words[0]) - ends[0]:
            words[0][: len(known)] = known
        said = " ".join(words[1][: len(words[1]) - ends[1]])
        return Translation(
            *words,
            text=self.languages.target.preprocessing.restore(said),
            words=said,
            score=best.score,
            log_probability=best.log_probability,
            alignment=to_words(best.alignment, *places),
        )
