"""What a run thinks of translations that are given: log-probabilities, perplexity, n-best lists ranked anew."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig

from nmt.data.batches import Batch, collate
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import Line, Sides
from nmt.data.text_files import in_blocks, in_step
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation import perplexity as likelihood
from nmt.search.forced_decoding import force
from nmt.translate.alignment import of_words, to_words
from nmt.translate.text_translator import READ_AHEAD, TextTranslator, batches_of


class Given(NamedTuple):
    """A given translation as the model sees it; the last of the scores and of the alignment's rows is the end's."""

    words: list[str]
    word_scores: np.ndarray
    alignment: np.ndarray  # (words + 1, source)

    @property
    def log_probability(self) -> float:
        return float(self.word_scores.sum())


def scored(translator: TextTranslator, lines: Iterator[Line], *, batch_size: int = 64) -> Iterator[Given | None]:
    """In order; None where preprocessing leaves nothing of the source, which says nothing about a translation then."""
    for block in in_blocks(lines, READ_AHEAD * batch_size):
        yield from _scored_block(translator, block, batch_size)


@torch.inference_mode()
def perplexity(translator: TextTranslator, lines: list[Line], *, batch_size: int = 64) -> dict[str, float]:
    """Of the references, forced; with the loss of a piece.

    Pairs whose source preprocessing leaves empty are left out, as in validation.
    """
    preprocessed = _preprocessed(translator, lines)
    words = likelihood.words_of(preprocessed.target)
    batches = _batches(translator, _encoded(translator, preprocessed), batch_size)
    return likelihood.scores(sum(likelihood.counts(translator.model, batch, words) for batch in batches))


def _preprocessed(translator: TextTranslator, lines: list[Line]) -> Sides:
    """Each side's lines, as the model sees them."""
    return Sides(
        *([language.preprocessing(line[side]) for line in lines] for side, language in enumerate(translator.languages))
    )


def _encoded(translator: TextTranslator, preprocessed: Sides) -> Sides:
    return Sides(
        *(
            EncodedText.of_lines(language.vocabulary, lines)
            for language, lines in zip(translator.languages, preprocessed, strict=True)
        )
    )


def _batches(translator: TextTranslator, text: Sides, size: int) -> Iterator[Batch]:
    """Those of like length together, without those that have no source."""
    read = np.flatnonzero(text.source.lengths)
    for places in batches_of(np.maximum(*(side.lengths[read] for side in text)), size):
        batch = collate(text, read[places], source_end=translator.source_end)
        yield batch.to(torch.device(translator.device))


def _scored_block(translator: TextTranslator, lines: list[Line], batch_size: int) -> list[Given | None]:
    languages, preprocessed = translator.languages, _preprocessed(translator, lines)
    words, text = [[line.split() for line in own] for own in preprocessed], _encoded(translator, preprocessed)
    found: list = [None] * len(lines)
    for batch in _batches(translator, text, batch_size):
        forced = force(translator.model, batch)
        scores, alignments = forced.word_scores.cpu().numpy(), forced.alignment.cpu().numpy()
        for place, number in enumerate(batch.sentences.tolist()):
            rows, columns = len(text.target[number]) + 1, int(batch.source_lengths[place])
            places = []
            for language, own, ended in zip(languages, words, (columns > len(text.source[number]), True), strict=True):
                pieces = language.vocabulary.word_of_piece_in(own[number])
                places.append(pieces + [len(own[number])] * ended)
            found[number] = Given(
                words[1][number],
                of_words(scores[:rows, place], places[1]),
                to_words(alignments[:rows, place, :columns], *places),
            )
    return found


def score_pairs(translator: TextTranslator, settings: DictConfig) -> Iterator[str]:
    """A line for each pair: log-probability, and its mean over words and end; or JSON, with words and alignment."""
    source, target = map(Path, _two(settings.score, "score", "TARGET"))
    found = scored(translator, _pairs(source, target), batch_size=settings.batch_size)
    for number, given in enumerate(found, start=1):
        if given is None:
            raise _emptied(source, number)
        mean = given.log_probability / len(given.word_scores)
        if settings.as_json:
            plain = {"log_probability": given.log_probability, "mean": mean, "words": given.words}
            plain["word_scores"] = np.round(given.word_scores.astype(float), 5).tolist()
            plain["alignment"] = np.round(given.alignment.astype(float), 4).tolist()
            yield json.dumps(plain, ensure_ascii=False)
        else:
            yield f"{given.log_probability:.4f}\t{mean:.4f}"


def _pairs(source: Path, target: Path) -> Iterator[Line]:
    for number, *sides in in_step(source, target):
        for path, line in zip((source, target), sides, strict=True):
            if not line:
                raise DataError(f"{path}, line {number}: empty; pairs of lines are scored")
        yield Line(*sides)


def _emptied(path: Path, number: int) -> DataError:
    return DataError(f"{path}, line {number}: nothing is left of it after preprocessing; what is scored needs a source")


def _two(files, key: str, second: str) -> list[str]:
    if not isinstance(files, list | ListConfig) or len(files) != 2:
        raise ConfigurationError(f"{key}={files}: two files are expected, '{key}=[SOURCE,{second}]'")
    return [str(file) for file in files]
