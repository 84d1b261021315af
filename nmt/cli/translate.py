"""Translate text with a trained model or an ensemble: raw text in, detokenized text out, line for line.

    python translate.py RUN [KEY=VALUE …] < source > target
    python translate.py RUN RUN … [average=probabilities|logs] < source > target
    python translate.py RUN RUN … serve=true [port=8000]

RUN is the folder of a run, or one of its checkpoints: multirun/first/* names all runs of a sweep. run=RUN and
'runs=[RUN,RUN]' mean the same.

The second command translates with an ensemble; its runs must have the same vocabularies. The third serves a page in
the browser, where runs translate side by side. The keys most often used:

- beam=10: the width of the beam search; 1 is greedy search. Search keys that are not given are those of the run.
- nbest=N: N lines for each line: number ||| text ||| score, like Moses without features.
- alignments=true: links follow after a tab, or after ||| with nbest: source word-target word, from 0.
- format=json: an object a line, with words, scores and links.
- input=FILE output=FILE: files instead of standard input and output.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, TextIO

from omegaconf import DictConfig
from tqdm import tqdm

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.cli.run_arguments import name_runs, split_runs
from nmt.data.text_files import open_text
from nmt.errors import ConfigurationError, require_packages
from nmt.system.files import dump_json
from nmt.system.garbage_collection import pause_garbage_collection
from nmt.system.progress_bar import make_progress_bar

with pause_garbage_collection():  # because these import torch
    from nmt.translate.alignment import format_pharaoh, link_words
    from nmt.translate.input_lines import add_prefixes, decode_lines
    from nmt.translate.loading import build_search, load_translator
    from nmt.translate.nbest import format_nbest_line
    from nmt.translate.output_file import check_output, open_output
    from nmt.translate.text_translator import READ_AHEAD, TranslatedLine, Translation
    from nmt.translate.unknown_words import make_replacer

FORMATS = ("text", "json")


def translate(settings: DictConfig, standard_input: BinaryIO, standard_output: TextIO) -> None:
    """Translate the lines of `input` or standard input, and write them to `output` or standard output."""
    if settings.format not in FORMATS:
        raise ConfigurationError(f"format={settings.format}: no such format. Fix: format=text or format=json")
    path = check_output(settings)
    runs, translator = load_translator(settings)
    search = build_search(settings, runs)
    replace_unknown = make_replacer(runs[0], settings.unknown)
    with ExitStack() as stack:
        source, name = _open_input(settings, standard_input)
        output = stack.enter_context(open_output(path)) if path else standard_output
        progress = stack.enter_context(make_progress_bar(" lines"))
        # on a terminal, translate each line as soon as it is typed
        batch_size, read_ahead = (1, 1) if source.isatty() else (settings.batch_size, READ_AHEAD)
        translated = translator.translate_lines(
            add_prefixes(decode_lines(source, name), name, settings.prefixes),
            search,
            batch_size=batch_size,
            max_pieces=settings.longest_line,
            read_ahead=read_ahead,
        )
        for number, line in enumerate(translated):
            _report_long_line(number + 1, line, settings.longest_line)
            translations = [replace_unknown(translation) for translation in line.translations]
            for text in _format(number, line.source, translations, settings, search.nbest):
                output.write(f"{text}\n")
            if (number + 1) % (batch_size * read_ahead) == 0:
                output.flush()  # not after every line, because a compressed file would be half as large again
            progress.update()
        output.flush()


def _open_input(settings: DictConfig, standard_input: BinaryIO) -> tuple[BinaryIO, str]:
    """Return the stream to read, and its name for errors."""
    if settings.input is None:
        return standard_input, "standard input"
    return open_text(Path(str(settings.input))), str(settings.input)


def _report_long_line(number: int, line: TranslatedLine, longest: int) -> None:
    actions = [f"translated in {line.parts} parts"] * (line.parts > 1) + ["cut off the end of a single word"] * line.cut
    if actions:
        write = tqdm.write if sys.stderr.isatty() else print  # tqdm.write keeps the progress bar in one piece
        message = f"line {number}: longer than {longest} words or pieces (longest_line); {', '.join(actions)}"
        write(message, file=sys.stderr)


def _format(
    number: int, source: str, translations: list[Translation], settings: DictConfig, nbest: int
) -> Iterator[str]:
    """Yield the output lines of an input line, whose number counts from 0."""
    if settings.format == "json":
        records = [translation.to_dict(alignment=settings.alignments) for translation in translations]
        yield dump_json({"line": number + 1, "source": source, "translations": records})
    elif nbest > 1:
        for translation in translations:
            links = [_format_links(translation)] if settings.alignments else []
            yield format_nbest_line(number, translation.text, f"{translation.score:.4f}", *links)
    elif translations:
        yield translations[0].text + (f"\t{_format_links(translations[0])}" if settings.alignments else "")
    else:
        yield ""  # because a blank line stays blank


def _format_links(translation: Translation) -> str:
    return format_pharaoh(link_words(translation.word_alignment()))


@exit_with_one_line_errors
def main() -> None:
    """Translate, or serve the page if serve=true."""
    runs, arguments = split_runs("translate", sys.argv[1:])
    settings, _ = read_arguments("translate", arguments, usage=__doc__)
    name_runs(settings, runs)
    if settings.serve:
        require_packages("serve=true", "starlette", "uvicorn", extra="serve")
        from nmt.web.server import serve

        serve(settings)
    else:
        translate(settings, sys.stdin.buffer, sys.stdout)
