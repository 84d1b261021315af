"""Translate lines of text: in batches of similar length, returned in the order of the input."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import torch

from nmt.data.batches import pad_rows, pad_source
from nmt.data.candidate_lists import Candidates
from nmt.data.parallel_text import Sides
from nmt.data.text_files import split_into_blocks
from nmt.data.vocabulary import END, SPECIAL
from nmt.model.kernels.graphed_loop import Recorder
from nmt.model.kernels.graphed_step import GraphedModel
from nmt.model.translator import Translator
from nmt.search.beam import Hypothesis, Searchable, beam_search
from nmt.search.ensemble import Ensemble
from nmt.search.forced_decoding import add_traces
from nmt.search.settings import Search
from nmt.translate.alignment import link_words, merge_pieces, merge_trace
from nmt.translate.layers import to_layers
from nmt.translate.long_lines import block_diagonal, split_line

READ_AHEAD = 20  # batches that are read and sorted by length together
MAX_PIECES = 200  # of a line that is translated at once; a longer line is split
MAX_BATCH_PIECES = 6000  # source pieces of a batch, with padding: batches of long lines have fewer lines
GRAPHED_MULTIPLE = 8  # sources are padded to a multiple of it, so that graphs have few shapes


class Translation(NamedTuple):
    """One translation of a line; words, scores and alignment contain the end symbols that `has_end` names."""

    source: list[str]
    target: list[str]
    text: str  # detokenized, for a reader
    words: str  # as the model sees it, without the end symbol
    score: float
    log_probability: float
    alignment: np.ndarray  # (target, source)
    word_scores: np.ndarray  # log-probability of each word of `target`
    has_end: Sides  # true for a side whose last word is the end symbol: a text may contain a word that looks like it
    traces: dict[str, np.ndarray]  # by name, over words, if they are kept: see `trace_translations`

    @classmethod
    def empty(cls) -> "Translation":
        """Return the translation of a blank line."""
        nothing = np.zeros((0, 0), np.float32)
        return cls([], [], "", "", 0.0, 0.0, nothing, nothing.sum(1), Sides(False, False), {})

    def word_alignment(self) -> np.ndarray:
        """Return the alignment without the end symbols."""
        rows, columns = len(self.target) - self.has_end.target, len(self.source) - self.has_end.source
        return self.alignment[:rows, :columns]

    def to_dict(self, *, alignment: bool) -> dict[str, Any]:
        """Return plain values for JSON; if `alignment` is true, with its matrix and the layers of its traces."""
        values = {
            "text": self.text,
            "score": round(self.score, 5),
            "log_probability": round(self.log_probability, 5),
            "source_words": self.source,
            "words": self.target,
            "word_scores": [round(float(score), 5) for score in self.word_scores],
            "links": [list(link) for link in link_words(self.word_alignment())],
        }
        if alignment:
            values["alignment"] = np.round(self.alignment.astype(float), 4).tolist()
        if alignment and self.traces:
            values["layers"] = [layer.to_dict(4) for layer in to_layers(self.traces)]
        return values


class TranslatedLine(NamedTuple):
    """A line and its translations, best first; a blank line has none."""

    source: str
    translations: list[Translation]
    parts: int  # more than 1 if the line was too long to be translated at once
    cut: bool  # true if a single word was too long and lost its end


@dataclass
class _Part:
    line: int  # index of its line in the block
    words: str
    pieces: np.ndarray
    prefix: list[str]  # words its translations have to begin with
    prefix_pieces: np.ndarray
    cut: bool = False
    translations: list[Translation] = field(default_factory=list)


class TextTranslator:
    """A model or an ensemble with its languages: text in, text out.

    Args:
        model: The model or ensemble.
        languages: Its languages.
        source_end: It reads the end symbol of the source.
        device: The device that it is moved to.
        candidates: The lists that words are chosen from.
        record: Records the steps of a search as graphs of a GPU; None: it runs without graphs.
    """

    def __init__(
        self,
        model: Translator | Ensemble,
        languages: Sides,
        *,
        source_end: bool,
        device: str = "cpu",
        candidates: Candidates | None = None,
        record: Recorder | None = None,
    ):
        self.model = model.to(device).eval()
        self.searched: Searchable = GraphedModel(self.model, record) if record else self.model
        self.multiple = GRAPHED_MULTIPLE if record else 1
        self.languages, self.source_end, self.device, self.candidates = languages, source_end, device, candidates

    def __call__(self, lines: Iterable[str], search: Search, *, batch_size: int = 64) -> Iterator[list[Translation]]:
        """Yield the n best translations of each line, in order; a blank line has none."""
        for line in self.translate_lines(((line, None) for line in lines), search, batch_size=batch_size):
            yield line.translations

    def translate_lines(
        self,
        lines: Iterable[tuple[str, str | None]],
        search: Search,
        *,
        batch_size: int = 64,
        max_pieces: int = MAX_PIECES,
        read_ahead: int = READ_AHEAD,
        traces: bool = False,
    ) -> Iterator[TranslatedLine]:
        """Translate lines, in order; the memory used does not depend on their number.

        Args:
            lines: Each line with the words that its translations have to begin with, or None.
            search: How to search.
            batch_size: The most lines of a batch.
            max_pieces: The most pieces of a line that is translated at once.
            read_ahead: Batches that are read and sorted by length together.
            traces: Also return what the model's parts show; not of a line in parts.
        """
        seeds = count(search.seed)  # another seed for each batch, or all would draw the same
        for block in split_into_blocks(lines, read_ahead * batch_size):
            parts = self._split(block, max_pieces)
            for batch in batch_by_length([len(part.pieces) for part in parts], batch_size):
                self._translate([parts[index] for index in batch], replace(search, seed=next(seeds)), traces)
            yield from self._join_lines(block, parts)

    def _split(self, lines: list[tuple[str, str | None]], max_pieces: int) -> list[_Part]:
        """Return the parts of all lines that are not blank; the prefix of a line belongs to its first part."""
        source, target = self.languages
        preprocessed = [source.preprocessing(line) for line, _ in lines]
        parts = []
        no_prefix: tuple[list[str], np.ndarray] = ([], np.zeros(0, dtype=np.int64))
        for number, (words, pieces) in enumerate(
            zip(preprocessed, source.vocabulary.encode(preprocessed), strict=True)
        ):
            if not len(pieces):
                continue
            start = target.preprocessing(lines[number][1] or "")
            prefix = (start.split(), target.vocabulary.encode([start])[0]) if start else no_prefix
            if len(pieces) <= max_pieces:
                parts.append(_Part(number, words, pieces, *prefix))
                continue
            for text in split_line(words, source.vocabulary, max_pieces):
                pieces = source.vocabulary.encode([text])[0]
                parts.append(_Part(number, text, pieces[:max_pieces], *prefix, cut=len(pieces) > max_pieces))
                prefix = no_prefix
        return parts

    def _translate(self, parts: list[_Part], search: Search, traces: bool) -> None:
        rows = pad_rows([part.pieces for part in parts])
        source, lengths = pad_source(*rows, source_end=self.source_end, multiple=self.multiple)
        prefixes = None
        if any(part.prefix for part in parts):
            prefixes = torch.from_numpy(pad_rows([part.prefix_pieces for part in parts])[0]).to(self.device)
        nbest = beam_search(
            self.searched, source.to(self.device), lengths, search, prefixes=prefixes, candidates=self.candidates
        )
        if traces:
            nbest = self._add_traces(source.to(self.device), lengths, nbest, search.aligned_word)
        for part, hypotheses in zip(parts, nbest, strict=True):
            part.translations = [
                self.build_translation(part.words, part.pieces, hypothesis, part.prefix) for hypothesis in hypotheses
            ]

    def _add_traces(
        self, source: torch.Tensor, lengths: torch.Tensor, nbest: list[list[Hypothesis]], aligned_word: str
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses with what the model's parts show while they produce them."""
        rows = torch.tensor([row for row, hypotheses in enumerate(nbest) for _ in hypotheses])
        waiting = (hypothesis for hypotheses in nbest for hypothesis in hypotheses)
        traced = (
            hypothesis
            for chunk in rows.split(max(1, MAX_BATCH_PIECES // source.shape[1]))
            for hypothesis in add_traces(
                self.model,
                source[chunk.to(source.device)],
                lengths[chunk],
                list(islice(waiting, len(chunk))),
                aligned_word,
            )
        )
        return [[next(traced) for _ in hypotheses] for hypotheses in nbest]

    def build_translation(
        self, line: str, source: np.ndarray, hypothesis: Hypothesis, prefix: Sequence[str] = ()
    ) -> Translation:
        """Turn a hypothesis over pieces into words and text.

        Words of the line and of the prefix stay as written, because the vocabulary may not contain them.

        Args:
            line: The preprocessed line.
            source: Its pieces.
            hypothesis: The hypothesis.
            prefix: The words that the hypothesis had to begin with.
        """
        vocabulary = self.languages.target.vocabulary
        prefix_places = vocabulary.map_pieces_of_words(list(prefix))
        free = hypothesis.words[len(prefix_places) :]
        words = Sides(line.split(), [*prefix, *vocabulary.words(free)])
        places = Sides(  # for each piece the index of its word
            self.languages.source.vocabulary.map_pieces_of_words(words.source)[: len(source)],
            [*prefix_places, *(len(prefix) + place for place in vocabulary.map_pieces_to_words(free))],
        )
        joined = " ".join(words.target)
        target_size, source_size = hypothesis.alignment.shape
        has_end = Sides(source_size > len(source), target_size > len(hypothesis.words))
        for side_words, side_places, ends in zip(words, places, has_end, strict=True):
            if ends:
                side_places.append(len(side_words))
                side_words.append(SPECIAL[END])
        return Translation(
            *words,
            text=self.languages.target.preprocessing.restore(joined),
            words=joined,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            alignment=merge_pieces(hypothesis.alignment, *places),
            word_scores=np.bincount(places.target, weights=hypothesis.word_scores),
            has_end=has_end,
            traces={
                name: merge_trace(values, *places) for name, values in hypothesis.trace.items() if name != "alignment"
            },
        )

    def _join_lines(self, lines: list[tuple[str, str | None]], parts: list[_Part]) -> list[TranslatedLine]:
        parts_of_line: list[list[_Part]] = [[] for _ in lines]
        for part in parts:
            parts_of_line[part.line].append(part)
        return [
            TranslatedLine(line, self._join_nbest(own_parts), len(own_parts), any(part.cut for part in own_parts))
            for (line, _), own_parts in zip(lines, parts_of_line, strict=True)
        ]

    def _join_nbest(self, parts: list[_Part]) -> list[Translation]:
        """Join the best translations of the parts, then the second best, and so on."""
        if len(parts) == 1:
            return parts[0].translations
        return [self._join(ranked) for ranked in zip(*(part.translations for part in parts), strict=False)]

    def _join(self, parts: tuple[Translation, ...]) -> Translation:
        """Join translations of parts, without end symbols; the score is the mean of their scores."""
        alignments = [part.word_alignment() for part in parts]
        sizes = [alignment.shape for alignment in alignments]
        joined = " ".join(part.words for part in parts if part.words)
        return Translation(
            source=[word for part, (_, columns) in zip(parts, sizes, strict=True) for word in part.source[:columns]],
            target=joined.split(),
            text=self.languages.target.preprocessing.restore(joined),
            words=joined,
            score=float(np.mean([part.score for part in parts])),
            log_probability=sum(part.log_probability for part in parts),
            alignment=block_diagonal(alignments),
            word_scores=np.concatenate([part.word_scores[:rows] for part, (rows, _) in zip(parts, sizes, strict=True)]),
            has_end=Sides(False, False),
            traces={},
        )


def batch_by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield batches of at most `size` indices, shortest lines first; batches of long lines are smaller."""
    order = np.argsort(lengths, kind="stable").tolist()
    while order:
        fitting = max(1, min(size, MAX_BATCH_PIECES // (lengths[order[min(size, len(order)) - 1]] + 1)))
        yield order[:fitting]
        order = order[fitting:]
