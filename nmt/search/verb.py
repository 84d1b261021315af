"""`translate.py`: standard input to standard output, one line for each line, in order."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import torch
from omegaconf import DictConfig

from nmt.errors import ConfigurationError
from nmt.run import Run
from nmt.search.alignment import links, pharaoh
from nmt.search.beam import Search
from nmt.search.translation import TextTranslator, Translation


def translator_of(run: Run, device: str) -> TextTranslator:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return TextTranslator(run.model, run.languages, source_end=run.config.data.source_end, device=device)


def translate(settings: DictConfig, source: BinaryIO) -> Iterator[str]:
    """Output lines. With nbest > 1: number ||| text ||| score, as Moses writes them; with alignments, links follow
    after a tab (or ` ||| `): source word-target word from 0, over the words the model sees."""
    if settings.run is None:
        raise ConfigurationError("run=FOLDER must be given: the run to translate with")
    how = Search(beam=settings.beam, nbest=settings.nbest, length_penalty=settings.length_penalty)
    translator = translator_of(Run(settings.run), settings.device)
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
