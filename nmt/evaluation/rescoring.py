"""Rescore an n-best list with the log-probabilities of a model."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from nmt.data.parallel_text import SentencePair
from nmt.data.text_files import read_lines
from nmt.errors import DataError
from nmt.evaluation.forced_scoring import check_two_files, empty_source_error, score_translations
from nmt.system.files import dump_json
from nmt.translate.nbest import ESCAPED_SEPARATOR, format_nbest_line, parse_nbest_line
from nmt.translate.text_translator import TextTranslator


class _Candidate(NamedTuple):
    number: int  # of the sentence, from 0
    text: str
    score: float


def rescore(translator: TextTranslator, settings: DictConfig) -> Iterator[str]:
    """Carry out `rescore=[SOURCE,NBEST]`: yield the candidates of each sentence, best first.

    A line is `number ||| text ||| together ||| score ||| mean`, or JSON. `mean` is the model's mean log-probability per
    word, and together = score + rescore_weight · mean.
    """
    source, nbest = map(Path, check_two_files(settings.rescore, "rescore", "NBEST"))
    sources = list(read_lines(source))
    candidates = list(_read_nbest(nbest, len(sources)))
    pairs = (SentencePair(sources[candidate.number], candidate.text) for candidate in candidates)
    scored = score_translations(translator, pairs, batch_size=settings.batch_size)
    ranked = []
    for candidate, translation in zip(candidates, scored, strict=True):
        if translation is None:
            raise empty_source_error(source, candidate.number + 1)
        ranked.append((candidate, candidate.score + settings.rescore_weight * translation.mean, translation.mean))
    for candidate, together, mean in sorted(ranked, key=lambda entry: (entry[0].number, -entry[1])):
        scores = {"together": together, "score": candidate.score, "mean": mean}
        if settings.as_json:
            yield dump_json({"number": candidate.number, "text": candidate.text} | scores)
        else:
            yield format_nbest_line(candidate.number, candidate.text, *(f"{score:.4f}" for score in scores.values()))


def _read_nbest(path: Path, sentences: int) -> Iterator[_Candidate]:
    for line_number, line in enumerate(read_lines(path), start=1):
        try:
            candidate = _Candidate(*parse_nbest_line(line))
            if not math.isfinite(candidate.score):
                raise ValueError
        except ValueError:
            raise DataError(
                f"{path}, line {line_number}: is not an n-best line. Fix: number ||| text ||| score, with numbers from "
                f"0, a finite score, and {ESCAPED_SEPARATOR} for ||| in a text"
            ) from None
        if not 0 <= candidate.number < sentences:
            raise DataError(
                f"{path}, line {line_number}: has sentence number {candidate.number}, but the source has {sentences} "
                "lines. Fix: count sentences from 0"
            )
        yield candidate
