"""Translate text: python translate.py run=FOLDER [beam=5] [nbest=1] [format=json] [alignments=true] < source > target

Several runs with the same vocabularies translate as one: 'runs=[FOLDER,FOLDER]' [average=probabilities|logs]. Other
keys, with their defaults, stand in conf/translate.yaml and conf/search.yaml. Raw text in, written text out, line for
line. A page in the browser, runs side by side: 'runs=[FOLDER,FOLDER]' serve=true [port=8000].
"""

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product, zip_longest
from pathlib import Path
from typing import BinaryIO, TextIO

from omegaconf import DictConfig
from tqdm import tqdm

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import in_plain_words
from nmt.data.text_files import lines_of, open_text
from nmt.errors import ConfigurationError, DataError
from nmt.translate.alignment import links, pharaoh
from nmt.translate.loading import as_record, opened, replacing, search_of
from nmt.translate.nbest import nbest_line
from nmt.translate.text_translator import READ_AHEAD, Translation

FORMATS = ("text", "json")


def translate(settings: DictConfig, standard_input: BinaryIO, standard_output: TextIO) -> None:
    """Lines of text, or of JSON. With nbest > 1 text is number ||| text ||| score, as Moses writes it; with alignments,
    links follow after a tab (or ` ||| `): source word-target word from 0, over the words the model sees."""
    if settings.format not in FORMATS:
        raise ConfigurationError(f"format={settings.format}: choose {' or '.join(FORMATS)}")
    how = search_of(settings)
    file = _output(settings)
    runs, translator = opened(settings)
    replaced = replacing(runs, settings.unknown)
    with ExitStack() as stack:
        source, name = _input(settings, standard_input)
        output = stack.enter_context(_written(file)) if file else standard_output
        progress = stack.enter_context(_progress())
        given: dict[int, str] = {}  # lines on their way through the model

        def numbered() -> Iterator[tuple[str, str | None]]:
            for number, (line, prefix) in enumerate(_with_prefixes(_lines(source, name), name, settings.prefixes)):
                given[number] = line
                yield line, prefix

        batch_size, read_ahead = (1, 1) if source.isatty() else (settings.batch_size, READ_AHEAD)
        found = translator.lines(
            numbered(),
            how,
            batch_size=batch_size,
            longest=settings.longest_line,
            read_ahead=read_ahead,
        )
        for number, line in enumerate(found):
            if line.parts > 1 or line.cut:
                _report_long(number + 1, line.parts, settings.longest_line, line.cut)
            translations = [replaced(translation) for translation in line.translations]
            for text in _formatted(number, given.pop(number), translations, settings):
                output.write(f"{text}\n")
            if (number + 1) % (batch_size * read_ahead) == 0:
                output.flush()  # after every line, a packed file would be half as large again
            progress.update()
        output.flush()


def _input(settings: DictConfig, standard_input: BinaryIO) -> tuple[BinaryIO, str]:
    """And what it is called where something is wrong with it."""
    if settings.input is None:
        return standard_input, "standard input"
    return open_text(Path(str(settings.input))), str(settings.input)


def _output(settings: DictConfig) -> Path | None:
    """The file to write, if any: none that is read, and nothing that is there and is no file, such as /dev/null."""
    if settings.output is None:
        return None
    path = Path(str(settings.output))
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"output={path}: is there, and no file; without output= standard output is written")
    read = {key: Path(str(settings[key])) for key in ("input", "prefixes") if settings[key] is not None}
    for written, (key, own) in product((path, _draft_of(path)), read.items()):
        if written.exists() and own.exists() and own.samefile(written):
            raise ConfigurationError(f"output={path}: would be written over {key}={own}; name another file")
    return path


def _formatted(number: int, line: str, found: list[Translation], settings: DictConfig) -> Iterator[str]:
    if settings.format == "json":
        translations = [as_record(translation, alignment=settings.alignments) for translation in found]
        yield json.dumps({"line": number + 1, "source": line, "translations": translations}, ensure_ascii=False)
    elif settings.nbest == 1:
        yield _text_line(found[0], settings.alignments) if found else ""
    else:
        for translation in found:
            yield _nbest_line(number, translation, settings.alignments)


def _text_line(translation: Translation, alignments: bool) -> str:
    return translation.text + (f"\t{pharaoh(links(translation.word_alignment()))}" if alignments else "")


def _nbest_line(number: int, translation: Translation, alignments: bool) -> str:
    linked = [pharaoh(links(translation.word_alignment()))] if alignments else []
    return nbest_line(number, translation.text, f"{translation.score:.4f}", *linked)


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
    say = tqdm.write if sys.stderr.isatty() else print  # tqdm makes room for itself even where no bar is shown
    say(said, file=sys.stderr)


def _writer(suffix: str) -> Callable[..., TextIO]:
    if suffix == ".zst":
        import zstandard

        return zstandard.open
    return gzip.open if suffix == ".gz" else open


def _draft_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


@contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """Under its name when it is whole; what was written before an interruption stays beside it."""
    draft = _draft_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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


def run() -> None:
    settings, _ = read_arguments("translate", sys.argv[1:], usage=__doc__)
    if settings.serve:
        from nmt.web.server import serve

        serve(settings)
        return
    translate(settings, sys.stdin.buffer, sys.stdout)


def main() -> None:
    with in_plain_words():
        run()
