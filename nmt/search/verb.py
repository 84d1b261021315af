"""`translate.py`: standard input to standard output, or file to file, one line for each line, in order."""

import dataclasses
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import torch
from omegaconf import DictConfig
from tqdm import tqdm

from nmt.data.corpus import lines_of, open_text
from nmt.data.prepared import SIDES
from nmt.errors import ConfigurationError, DataError
from nmt.model.translator import Translator
from nmt.run import Run
from nmt.search.alignment import links, pharaoh
from nmt.search.ensemble import Ensemble, Member
from nmt.search.int8 import in_int8
from nmt.search.settings import Search
from nmt.search.translation import READ_AHEAD, TextTranslator, Translation
from nmt.search.unknown import UnknownWords, check_unknown

FORMATS = ("text", "json")


def opened(settings: DictConfig) -> tuple[list[Run], TextTranslator]:
    """What `run`, or `runs` with `weights` and `average`, name."""
    check_sizes(settings)
    runs = [Run(path) for path in paths_of(settings)]
    if settings.run is not None:
        return runs, translator_of(runs[0], settings.device, settings.candidates, int8=settings.int8)
    for run in runs[1:]:
        _check_same_languages(runs[0], run)
    members = [Member(_model_of(run, settings.device, settings.int8), run.config.data.source_end) for run in runs]
    ensemble = Ensemble(members, weights=settings.weights, average=settings.average)
    translator = TextTranslator(
        ensemble,
        runs[0].languages,
        source_end=ensemble.source_end,
        device=_device(settings.device),
        candidates=runs[0].candidates(settings.candidates),
    )
    return runs, translator


def paths_of(settings: DictConfig) -> list[str]:
    """Of the runs that `run` or `runs` name."""
    if settings.run is None and not settings.runs:
        raise ConfigurationError("run=FOLDER must be given, or 'runs=[FOLDER,FOLDER]' for several")
    if settings.run is not None and settings.runs:
        raise ConfigurationError("run and runs both say what translates: give one")
    if isinstance(settings.runs, str):
        raise ConfigurationError(
            f"runs={settings.runs}: several are given as 'runs=[FOLDER,FOLDER]', one as run=FOLDER"
        )
    return [str(path) for path in settings.runs or [settings.run]]


def translator_of(run: Run, device: str, candidates: bool | None = None, *, int8: bool = False) -> TextTranslator:
    return TextTranslator(
        _model_of(run, device, int8),
        run.languages,
        source_end=run.config.data.source_end,
        device=_device(device),
        candidates=run.candidates(candidates),
    )


def _model_of(run: Run, device: str, int8: bool) -> Translator:
    if int8 and _device(device) != "cpu":
        raise ConfigurationError(f"int8=true: for device=cpu alone, not {_device(device)}")
    return in_int8(run.model) if int8 else run.model


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    there = ["cpu", *["cuda"] * torch.cuda.is_available(), *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if name not in there:
        raise ConfigurationError(f"device={name}: here it can be auto, {', '.join(there)}")
    return name


def _check_same_languages(first: Run, other: Run) -> None:
    for side, one, two in zip(SIDES, first.languages, other.languages, strict=True):
        if one.vocabulary.to_json() != two.vocabulary.to_json():
            raise ConfigurationError(
                f"runs: the {side} vocabulary of {other.folder} is not that of {first.folder}; runs that translate as "
                "one must be trained on the same data with the same data.vocabulary"
            )


def check_sizes(settings: DictConfig) -> None:
    """Nothing could come of smaller ones."""
    for key in ("batch_size", "longest_line"):
        if settings.get(key, 1) < 1:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least 1")


def search_of(settings: DictConfig) -> Search:
    check_sizes(settings)
    return Search(**{field.name: settings[field.name] for field in dataclasses.fields(Search)})


def replacing(runs: list[Run], how: str) -> Callable[[Translation], Translation]:
    """What happens to words the vocabulary lacks."""
    check_unknown(how)
    if how == "keep":
        return lambda translation: translation
    table = runs[0].word_table() if how == "translate" else None
    return UnknownWords(runs[0].languages.target, table)


def translate(settings: DictConfig, standard_input: BinaryIO, standard_output: TextIO) -> None:
    """Lines of text, or of JSON. With nbest > 1 text is number ||| text ||| score, as Moses writes it; with alignments,
    links follow after a tab (or ` ||| `): source word-target word from 0, over the words the model sees."""
    if settings.format not in FORMATS:
        raise ConfigurationError(f"format={settings.format}: choose {' or '.join(FORMATS)}")
    how = search_of(settings)
    runs, translator = opened(settings)
    replaced = replacing(runs, settings.unknown)
    with ExitStack() as stack:
        source, name = _input(settings, standard_input)
        output = (
            stack.enter_context(_written(Path(str(settings.output))))
            if settings.output is not None
            else standard_output
        )
        progress = stack.enter_context(_progress())
        given: dict[int, str] = {}  # lines on their way through the model

        def numbered() -> Iterator[tuple[str, str | None]]:
            for number, (line, prefix) in enumerate(_with_prefixes(_lines(source, name), name, settings.prefixes)):
                given[number] = line
                yield line, prefix

        at_a_time = 1 if source.isatty() else READ_AHEAD
        found = translator.lines(
            numbered(),
            how,
            batch_size=1 if source.isatty() else settings.batch_size,
            longest=settings.longest_line,
            read_ahead=at_a_time,
        )
        for number, line in enumerate(found):
            if line.parts > 1 or line.cut:
                _report_long(number + 1, line.parts, settings.longest_line, line.cut)
            translations = [replaced(translation) for translation in line.translations]
            for text in _formatted(number, given.pop(number), translations, settings):
                output.write(f"{text}\n")
            output.flush()
            progress.update()


def _input(settings: DictConfig, standard_input: BinaryIO) -> tuple[BinaryIO, str]:
    """And what it is called where something is wrong with it."""
    if settings.input is None:
        return standard_input, "standard input"
    return open_text(Path(str(settings.input))), str(settings.input)


def _formatted(number: int, line: str, found: list[Translation], settings: DictConfig) -> Iterator[str]:
    if settings.format == "json":
        translations = [as_plain(translation, alignment=settings.alignments) for translation in found]
        yield json.dumps({"line": number + 1, "source": line, "translations": translations}, ensure_ascii=False)
    elif settings.nbest == 1:
        yield _plain(found[0], settings.alignments) if found else ""
    else:
        for translation in found:
            yield _ranked(number, translation, settings.alignments)


def as_plain(translation: Translation, *, alignment: bool) -> dict[str, Any]:
    """For JSON."""
    plain = {
        "text": translation.text,
        "score": round(translation.score, 5),
        "log_probability": round(translation.log_probability, 5),
        "source_words": translation.source,
        "words": translation.target,
        "word_scores": [round(float(score), 5) for score in translation.word_scores],
        "links": [list(link) for link in links(translation.word_alignment())],
    }
    return plain | ({"alignment": np.round(translation.alignment.astype(float), 4).tolist()} if alignment else {})


def _plain(translation: Translation, alignments: bool) -> str:
    return translation.text + (f"\t{pharaoh(links(translation.word_alignment()))}" if alignments else "")


def _ranked(number: int, translation: Translation, alignments: bool) -> str:
    fields = [str(number), translation.text, f"{translation.score:.4f}"]
    if alignments:
        fields.append(pharaoh(links(translation.word_alignment())))
    return " ||| ".join(fields)


def _lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Bytes that are not UTF-8 are replaced and reported: a line is never lost."""
    for number, raw in enumerate(lines_of(stream, name), start=1):
        line = raw.decode("utf-8", errors="replace").strip()
        if "\ufffd" in line and b"\xef\xbf\xbd" not in raw:
            print(f"{name}, line {number}: not UTF-8; the bytes in question are read as \ufffd", file=sys.stderr)
        yield line


def _with_prefixes(lines: Iterator[str], name: str, prefixes: str | None) -> Iterator[tuple[str, str | None]]:
    if prefixes is None:
        yield from ((line, None) for line in lines)
        return
    for line, prefix in zip_longest(lines, _lines(open_text(Path(str(prefixes))), str(prefixes))):
        if line is None or prefix is None:
            shorter = name if line is None else prefixes
            raise DataError(
                f"prefixes={prefixes}: {shorter} has fewer lines; each line needs its own (it may be empty)"
            )
        yield line, prefix


def _report_long(number: int, parts: int, longest: int, cut: bool) -> None:
    how = [f"translated in {parts} parts"] * (parts > 1) + ["a single word longer than that was cut"] * cut
    said = f"line {number}: longer than {longest} words or pieces (longest_line); {', '.join(how)}"
    tqdm.write(said, file=sys.stderr)


def _writer(suffix: str) -> Callable[..., TextIO]:
    if suffix == ".zst":
        import zstandard

        return zstandard.open
    return gzip.open if suffix == ".gz" else open


@contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """Under its name when it is whole; what was written before an interruption stays beside it."""
    draft = path.with_name(f"{path.name}.part")
    try:
        opened = _writer(path.suffix)(draft, "wt", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"output={path}: cannot be written ({error.strerror})") from None
    with opened as stream:
        yield stream
    draft.replace(path)


def _progress() -> tqdm:
    """On standard error, where it takes long."""
    seconds = 1 if sys.stderr.isatty() else 30
    return tqdm(unit=" lines", file=sys.stderr, delay=5, mininterval=seconds, miniters=1, dynamic_ncols=True)
