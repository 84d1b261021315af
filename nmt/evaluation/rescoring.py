"""Rank an n-best list anew by a model's log-probabilities."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from nmt.data.parallel_text import Line
from nmt.data.text_files import read_lines
from nmt.errors import DataError
from nmt.evaluation.forced_scoring import _emptied, _two, scored
from nmt.translate.nbest import WITHIN, nbest_line, read_nbest_line
from nmt.translate.text_translator import TextTranslator


class _Candidate(NamedTuple):
    number: int
    text: str
    score: float


def rescore(translator: TextTranslator, settings: DictConfig) -> Iterator[str]:
    """number ||| text ||| score + weight · mean log-probability ||| score ||| mean log-probability; or JSON. Sentences
    in order, the best of each first, wherever in the list its candidates stand."""
    source, nbest = _two(settings.rescore, "rescore", "NBEST")
    sources = list(read_lines(Path(source)))
    candidates = list(_read_nbest(Path(nbest), len(sources)))
    pairs = (Line(sources[one.number], one.text) for one in candidates)
    given = scored(translator, pairs, batch_size=settings.batch_size)
    ranked = []
    for candidate, own in zip(candidates, given, strict=True):
        if own is None:
            raise _emptied(Path(source), candidate.number + 1)
        mean = own.log_probability / len(own.word_scores)
        ranked.append((candidate, candidate.score + settings.rescore_weight * mean, mean))
    for candidate, together, mean in sorted(ranked, key=lambda one: (one[0].number, -one[1])):
        scores = {"together": together, "score": candidate.score, "mean": mean}
        if settings.as_json:
            yield json.dumps({"number": candidate.number, "text": candidate.text} | scores, ensure_ascii=False)
        else:
            yield nbest_line(candidate.number, candidate.text, *(f"{score:.4f}" for score in scores.values()))


def _read_nbest(path: Path, sentences: int) -> Iterator[_Candidate]:
    for place, line in enumerate(read_lines(path), start=1):
        try:
            candidate = _Candidate(*read_nbest_line(line))
            if not math.isfinite(candidate.score):
                raise ValueError
        except ValueError:
            raise DataError(
                f"{path}, line {place}: number ||| text ||| score is expected, from 0 (||| in a text is {WITHIN})"
            ) from None
        if not 0 <= candidate.number < sentences:
            raise DataError(f"{path}, line {place}: sentence {candidate.number}, but the source has {sentences} lines")
        yield candidate
