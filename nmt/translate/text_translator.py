"""Translating lines of text: in batches of like length, in the order they came."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
import torch

from nmt.data.batches import pad_rows, pad_source
from nmt.data.parallel_text import Sides
from nmt.data.text_files import in_blocks
from nmt.data.vocabulary import END, SPECIAL
from nmt.model.translator import Translator
from nmt.search.beam import Hypothesis, search
from nmt.search.ensemble import Ensemble
from nmt.search.settings import Search
from nmt.translate.alignment import of_words, to_words
from nmt.translate.long_lines import block_diagonal, in_parts

READ_AHEAD = 20  # batches sorted together
LONGEST = 200  # pieces of a line that are translated at once
BATCH_PIECES = 6000  # of a batch's source, padded: batches of long lines are smaller


class Translation(NamedTuple):
    """One translation of a line. Words and alignment end with the end symbol where the model saw or made one."""

    source: list[str]
    target: list[str]
    text: str  # as a person would write it
    words: str  # as the model sees it, without the end symbol
    score: float
    log_probability: float
    alignment: np.ndarray  # (target, source)
    word_scores: np.ndarray  # log-probability of each of `target`
    ended: Sides  # whether a side ends with the model's own symbol: a text may spell it too

    @classmethod
    def of_nothing(cls) -> "Translation":
        """That of a blank line."""
        nothing = np.zeros((0, 0), np.float32)
        return cls([], [], "", "", 0.0, 0.0, nothing, nothing.sum(1), Sides(False, False))

    def word_alignment(self) -> np.ndarray:
        """Without the end symbols."""
        rows, columns = len(self.target) - self.ended.target, len(self.source) - self.ended.source
        return self.alignment[:rows, :columns]


class Line(NamedTuple):
    """What was made of a line: its translations, best first; a blank line has none."""

    translations: list[Translation]
    parts: int  # the line was too long for one if there are several
    cut: bool  # a part was a single word that had to be cut


@dataclass
class _Part:
    line: int  # in the block
    words: str
    row: np.ndarray
    begun: list[str]  # words its translations have to begin with
    prefix: np.ndarray  # those words, as the model knows them
    cut: bool
    found: list[Translation]


class TextTranslator:
    """A model, or several as one, with its languages: text in, text out."""

    def __init__(
        self, model: Translator | Ensemble, languages: Sides, *, source_end: bool, device: str = "cpu", candidates=None
    ):
        self.model = model.to(device).eval()
        self.languages, self.source_end, self.device, self.candidates = languages, source_end, device, candidates

    def __call__(self, lines: Iterable[str], how: Search, *, batch_size: int = 64) -> Iterator[list[Translation]]:
        """The n best translations of each line, in order; a blank line has none."""
        for line in self.lines(((line, None) for line in lines), how, batch_size=batch_size):
            yield line.translations

    def lines(
        self,
        lines: Iterable[tuple[str, str | None]],
        how: Search,
        *,
        batch_size: int = 64,
        longest: int = LONGEST,
        read_ahead: int = READ_AHEAD,
    ) -> Iterator[Line]:
        """Of lines with the words their translations have to begin with. Memory does not grow with their number."""
        seeds = count(how.seed)  # every batch draws anew
        for block in in_blocks(lines, read_ahead * batch_size):
            parts = self._parts(block, longest)
            for batch in batches_of([len(part.row) for part in parts], batch_size):
                self._translate([parts[index] for index in batch], replace(how, seed=next(seeds)))
            yield from self._whole_lines(parts, len(block))

    def _whole_lines(self, parts: list[_Part], lines: int) -> list[Line]:
        of_line: list[list[_Part]] = [[] for _ in range(lines)]
        for part in parts:
            of_line[part.line].append(part)
        return [
            Line(self._joined([part.found for part in own]), len(own), any(part.cut for part in own)) for own in of_line
        ]

    def _parts(self, lines: list[tuple[str, str | None]], longest: int) -> list[_Part]:
        """Of all lines that are not blank; a line's prefix belongs to its first part."""
        source, target = self.languages
        preprocessed = [source.preprocessing(line) for line, _ in lines]
        parts = []
        nothing: tuple[list[str], np.ndarray] = ([], np.zeros(0, dtype=np.int64))
        for number, (words, row) in enumerate(zip(preprocessed, source.vocabulary.encode(preprocessed), strict=True)):
            if not len(row):
                continue
            begun = target.preprocessing(lines[number][1] or "")
            prefix = (begun.split(), target.vocabulary.encode([begun])[0]) if begun else nothing
            if len(row) <= longest:
                parts.append(_Part(number, words, row, *prefix, False, []))
                continue
            for text in in_parts(words, source.vocabulary, longest):
                row = source.vocabulary.encode([text])[0]
                parts.append(_Part(number, text, row[:longest], *prefix, len(row) > longest, []))
                prefix = nothing
        return parts

    def _translate(self, parts: list[_Part], how: Search) -> None:
        source, lengths = pad_source(*pad_rows([part.row for part in parts]), source_end=self.source_end)
        prefixes = None
        if any(part.begun for part in parts):
            prefixes = torch.from_numpy(pad_rows([part.prefix for part in parts])[0]).to(self.device)
        model, source = self.model, source.to(self.device)
        found = search(model, source, lengths, how, prefixes=prefixes, candidates=self.candidates)
        for part, hypotheses in zip(parts, found, strict=True):
            part.found = [self.spell(part.words, part.row, hypothesis, part.begun) for hypothesis in hypotheses]

    def spell(self, line: str, source: np.ndarray, best: Hypothesis, begun: Sequence[str] = ()) -> Translation:
        """A hypothesis in words, beside those of the line; the vocabulary may know neither these nor the words that the
        translation had to begin with."""
        own, vocabulary = line.split(), self.languages.target.vocabulary
        of_begun = vocabulary.word_of_piece_in(list(begun))
        free = best.words[len(of_begun) :]
        places = [
            self.languages.source.vocabulary.word_of_piece_in(own)[: len(source)],
            [*of_begun, *(len(begun) + place for place in vocabulary.word_of_piece(free))],
        ]
        words = [own, [*begun, *vocabulary.words(free)]]
        said = " ".join(words[1])
        ended = Sides(best.alignment.shape[1] > len(source), best.alignment.shape[0] > len(best.words))
        for side, has_end in enumerate(ended):
            places[side] += [len(words[side])] * has_end
            words[side] += [SPECIAL[END]] * has_end
        return Translation(
            *words,
            text=self.languages.target.preprocessing.restore(said),
            words=said,
            score=best.score,
            log_probability=best.log_probability,
            alignment=to_words(best.alignment, *places),
            word_scores=of_words(best.word_scores, places[1]),
            ended=ended,
        )

    def _joined(self, parts: list[list[Translation]]) -> list[Translation]:
        """The parts' best as one, their second best as one, …; without end symbols. Scores are means over the parts."""
        if len(parts) == 1:
            return parts[0]
        return [self._join(ranked) for ranked in zip(*parts, strict=False)]

    def _join(self, parts: tuple[Translation, ...]) -> Translation:
        alignments = [part.word_alignment() for part in parts]
        said = " ".join(part.words for part in parts if part.words)
        return Translation(
            source=[word for part, own in zip(parts, alignments, strict=True) for word in part.source[: own.shape[1]]],
            target=said.split(),
            text=self.languages.target.preprocessing.restore(said),
            words=said,
            score=float(np.mean([part.score for part in parts])),
            log_probability=sum(part.log_probability for part in parts),
            alignment=block_diagonal(alignments),
            word_scores=np.concatenate(
                [part.word_scores[: own.shape[0]] for part, own in zip(parts, alignments, strict=True)]
            ),
            ended=Sides(False, False),
        )


def batches_of(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Indices, those of like length together."""
    order = np.argsort(lengths, kind="stable").tolist()
    while order:
        fitting = max(1, min(size, BATCH_PIECES // (lengths[order[min(size, len(order)) - 1]] + 1)))
        yield order[:fitting]
        order = order[fitting:]
