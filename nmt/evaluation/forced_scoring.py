"""Score given translations with a model by forced decoding: log-probabilities, alignments and perplexity."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig

from nmt.data.batches import Batch, collate
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.text_files import read_parallel_lines, split_into_blocks
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation import perplexity
from nmt.search.aligned_words import rows_of_words
from nmt.search.forced_decoding import force_decode
from nmt.system.files import dump_json
from nmt.translate.alignment import merge_pieces
from nmt.translate.text_translator import READ_AHEAD, TextTranslator, batch_by_length


class ScoredTranslation(NamedTuple):
    """A given translation; the last score and the last row of the alignment belong to the end symbol."""

    words: list[str]
    word_scores: np.ndarray
    alignment: np.ndarray  # (words + 1, source)

    @property
    def log_probability(self) -> float:
        """The log-probability of the translation."""
        return float(self.word_scores.sum())

    @property
    def mean(self) -> float:
        """The mean log-probability of its words and its end symbol."""
        return self.log_probability / len(self.word_scores)


def score_translations(
    translator: TextTranslator,
    pairs: Iterator[SentencePair],
    *,
    batch_size: int = 64,
    aligned_word: str = "predicted",
) -> Iterator[ScoredTranslation | None]:
    """Score the target side of each pair, in order; None if the source is empty after preprocessing."""
    for block in split_into_blocks(pairs, READ_AHEAD * batch_size):
        yield from _score_block(translator, block, batch_size, aligned_word)


@torch.inference_mode()
def reference_perplexity(
    translator: TextTranslator, pairs: list[SentencePair], *, batch_size: int = 64
) -> dict[str, float]:
    """Return loss and perplexity of the references; as in validation, pairs with an empty source are left out."""
    preprocessed = _preprocess(translator, pairs)
    words = perplexity.count_words(preprocessed.target)
    batches = _make_batches(translator, _encode(translator, preprocessed), batch_size)
    return perplexity.compute_scores(
        sum(perplexity.compute_totals(translator.model, batch, words) for batch in batches)
    )


def _preprocess(translator: TextTranslator, pairs: list[SentencePair]) -> Sides:
    languages = enumerate(translator.languages)
    return Sides(*([language.preprocessing(pair[side]) for pair in pairs] for side, language in languages))


def _encode(translator: TextTranslator, preprocessed: Sides) -> Sides:
    sides = zip(translator.languages, preprocessed, strict=True)
    return Sides(*(EncodedText.from_lines(language.vocabulary, lines) for language, lines in sides))


def _make_batches(translator: TextTranslator, text: Sides, size: int) -> Iterator[Batch]:
    """Yield batches of similar length, without the pairs that have no source."""
    numbers = np.flatnonzero(text.source.lengths(np.arange(len(text.source))))
    for places in batch_by_length(np.maximum(*(side.lengths(numbers) for side in text)), size):
        batch = collate(text, numbers[places], source_end=translator.source_end)
        yield batch.to(torch.device(translator.device))


def _score_block(
    translator: TextTranslator, pairs: list[SentencePair], batch_size: int, aligned_word: str
) -> list[ScoredTranslation | None]:
    preprocessed = _preprocess(translator, pairs)
    text = _encode(translator, preprocessed)
    scored: list[ScoredTranslation | None] = [None] * len(pairs)
    for batch in _make_batches(translator, text, batch_size):
        forced = force_decode(translator.model, batch)
        scores, alignments = forced.word_scores.cpu().numpy(), forced.alignment.cpu().numpy()
        for place, number in enumerate(batch.sentences.tolist()):
            rows, columns = len(text.target[number]) + 1, int(batch.source_lengths[place])
            words = [lines[number].split() for lines in preprocessed]
            source_words, target_words = _words_of_pieces(translator, words)
            word_scores = np.bincount(target_words, weights=scores[:rows, place])
            alignment = rows_of_words(alignments[:rows, place, :columns], aligned_word)
            alignment = merge_pieces(alignment, source_words, target_words)
            scored[number] = ScoredTranslation(words[1], word_scores, alignment)
    return scored


def _words_of_pieces(translator: TextTranslator, words: list[list[str]]) -> Iterator[list[int]]:
    """Yield for each side the word of each piece; the end symbol is one more word."""
    for language, side_words, has_end in zip(translator.languages, words, (translator.source_end, True), strict=True):
        yield language.vocabulary.map_pieces_of_words(side_words) + [len(side_words)] * has_end


def score_pairs(translator: TextTranslator, settings: DictConfig, aligned_word: str = "predicted") -> Iterator[str]:
    """Carry out `score=[SOURCE,TARGET]`: yield a line of output for each pair.

    A line has the log-probability and its mean over words and end symbol, or is JSON with words and alignment too.
    """
    source, target = map(Path, check_two_files(settings.score, "score", "TARGET"))
    how = {"batch_size": settings.batch_size, "aligned_word": aligned_word}
    scored = score_translations(translator, _read_pairs(source, target), **how)
    for number, translation in enumerate(scored, start=1):
        if translation is None:
            raise empty_source_error(source, number)
        if settings.as_json:
            yield dump_json(_to_dict(translation))
        else:
            yield f"{translation.log_probability:.4f}\t{translation.mean:.4f}"


def _to_dict(translation: ScoredTranslation) -> dict[str, Any]:
    return {
        "log_probability": translation.log_probability,
        "mean": translation.mean,
        "words": translation.words,
        "word_scores": np.round(translation.word_scores.astype(float), 5).tolist(),
        "alignment": np.round(translation.alignment.astype(float), 4).tolist(),
    }


def _read_pairs(source: Path, target: Path) -> Iterator[SentencePair]:
    for number, *sides in read_parallel_lines(source, target):
        for path, line in zip((source, target), sides, strict=True):
            if not line:
                raise DataError(f"{path}, line {number}: is empty. Fix: remove the line from both files")
        yield SentencePair(*sides)


def empty_source_error(path: Path, number: int) -> DataError:
    """Return the error for a source line that preprocessing leaves empty."""
    return DataError(f"{path}, line {number}: is empty after preprocessing. Fix: remove the line, or give it words")


def check_two_files(files: Any, key: str, second: str) -> list[str]:
    """Return the two file names of a key such as `score=[SOURCE,TARGET]`."""
    if not isinstance(files, list | ListConfig) or len(files) != 2:
        raise ConfigurationError(f"{key}={files}: must name two files. Fix: '{key}=[SOURCE,{second}]'")
    return [str(file) for file in files]
