"""`translate.py`: standard input to standard output, one line for each line, in order."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import torch
from omegaconf import DictConfig

from nmt.data.prepared import SIDES
from nmt.errors import ConfigurationError
from nmt.run import Run
from nmt.search.alignment import links, pharaoh
from nmt.search.beam import Search
from nmt.search.ensemble import Ensemble, Member
from nmt.search.translation import TextTranslator, Translation


def opened(settings: DictConfig) -> tuple[list[Run], TextTranslator]:
    """What `run`, or `runs` with `weights` and `average`, name."""
    if (settings.run is None) == (not settings.runs):
        raise ConfigurationError(
            "run=FOLDER must be given, or 'runs=[FOLDER,FOLDER]' for several that translate as one"
        )
    if settings.run is not None:
        run = Run(settings.run)
        return [run], translator_of(run, settings.device)
    runs = [Run(path) for path in settings.runs]
    for run in runs[1:]:
        _check_same_languages(runs[0], run)
    members = [Member(run.model, run.config.data.source_end) for run in runs]
    ensemble = Ensemble(members, weights=settings.weights, average=settings.average)
    device = _device(settings.device)
    return runs, TextTranslator(ensemble, runs[0].languages, source_end=ensemble.source_end, device=device)


def translator_of(run: Run, device: str) -> TextTranslator:
    return TextTranslator(run.model, run.languages, source_end=run.config.data.source_end, device=_device(device))


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def _check_same_languages(first: Run, other: Run) -> None:
    for side, one, two in zip(SIDES, first.languages, other.languages, strict=True):
        if one.vocabulary.to_json() != two.vocabulary.to_json():
            raise ConfigurationError(
                f"runs: the {side} vocabulary of {other.folder} is not that of {first.folder}; runs that translate as "
                "one must be trained on the same data with the same data.vocabulary"
            )


def translate(settings: DictConfig, source: BinaryIO) -> Iterator[str]:
    """Output lines. With nbest > 1: number ||| text ||| score, as Moses writes them; with alignments, links follow
    after a tab (or ` ||| `): source word-target word from 0, over the words the model sees."""
    how = Search(beam=settings.beam, nbest=settings.nbest, length_penalty=settings.length_penalty)
    _, translator = opened(settings)
    for number, found in enumerate(translator(_lines(source), how, batch_size=settings.batch_size)):
        if settings.nbest == 1:
            yield _plain(found[0], settings.alignments) if found else ""
        else:
            for translation in found:
                yield _ranked(number, translation, settings.alignments)


def _plain(translation: Translation, alignments: bool) -> str:
    return translation.text + (f"\t{pharaoh(links(translation.word_alignment()))}" if alignments else "")


def _ranked(number: int, translation: Translation, alignments: bool) -> str:
    fields = [str(number), translation.text, f"{translation.score:.4f}"]
    if alignments:
        fields.append(pharaoh(links(translation.word_alignment())))
    return " ||| ".join(fields)


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Bytes that are not UTF-8 are replaced and reported: a line is never lost."""
    for number, raw in enumerate(stream, start=1):
        line = raw.decode("utf-8", errors="replace").strip()
        if "\ufffd" in line and b"\xef\xbf\xbd" not in raw:
            print(f"line {number}: not UTF-8; the bytes in question are read as \ufffd", file=sys.stderr)
        yield line
