"""Compare runs: python compare.py RUN_OR_SWEEP … [output=compare.html] [test=NAME] [baseline=RUN] [resamples=1000]

Folders of runs, of sweeps, or of many of either. Writes one page that opens from the disk, and its tables beside it as
Markdown and JSON: leaderboard, learning curves, settings, BLEU by length, every sentence with its alignments. What
cannot be compared is listed there with the reason. Keys and defaults stand in conf/compare.yaml.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import in_plain_words
from nmt.config.schema import defaults_of
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.by_length import ENOUGH
from nmt.report.compare.statistics import tabulated
from nmt.report.compare.systems import Field, compared
from nmt.report.render.html_page import assembled, contents
from nmt.report.render.markdown import markdown
from nmt.system.files import writable, write_json, write_text


def folders_and_keys(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders of sweeps have = in their names: KEY=VALUE is what begins with a key there is."""
    known = [str(key) for key in defaults_of("compare")]
    keys, folders = [], []
    for argument in arguments:
        key, is_pair, _ = argument.partition("=")
        if (is_pair and key in known) or argument in ("-h", "--help", "help"):
            keys.append(argument)
        elif is_pair and "/" not in argument and not Path(argument).exists():
            raise ConfigurationError(f"{argument}: no such key and no such folder; keys are {', '.join(known)}")
        else:
            folders.append(argument)
    return folders, keys


def compare(folders: Sequence[str], settings: DictConfig) -> str:
    """Writes the page and its tables; one line that says what was compared."""
    output = _output(settings)
    if not folders:
        raise UserError("nothing to compare: python compare.py RUN_OR_SWEEP …; --help says more")
    found = compared(folders, settings.test, settings.baseline)
    content = contents(found, settings.megabytes * 1e6)
    tables = tabulated(found, settings.resamples, _together(settings.together, found))
    write_text(output, assembled(tables, content))
    write_text(output.with_suffix(".md"), markdown(tables))
    write_json(output.with_suffix(".json"), tables)
    return f"{output}, {output.stem}.md, {output.stem}.json: {_said(found)}; {output.stat().st_size / 1e6:.1f} MB"


def _said(found: Field) -> str:
    sentences = len(found.runs[0].on.sentences)
    counts = ((len(found.systems), "system"), (len(found.runs), "run"), (sentences, "sentence"))
    systems, runs, sentences = (f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts)
    others = f"; {len(found.left_out)} not compared" if found.left_out else ""
    return f"{systems} of {runs} on {found.test}, {sentences}{others}"


def _output(settings: DictConfig) -> Path:
    output = Path(str(settings.output))
    if output.suffix != ".html":
        raise ConfigurationError(f"output={output}: must end with .html; the tables lie beside it as .md and .json")
    for key, least in (("resamples", 1), ("together", 1), ("megabytes", 0)):
        if settings[key] is None or settings[key] < least:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least {least}")
    writable(output.parent, f"output={output}")
    return output


def _together(together: int, found: Field) -> int:
    """Of few pieces a bootstrap makes too much: by two of them every second of two equal systems differs."""
    sentences = len(found.runs[0].on.sentences)
    if together > 1 and sentences < ENOUGH * together:
        raise ConfigurationError(
            f"together={together}: {found.test} has {sentences} sentences, which are to be {ENOUGH} pieces at least: "
            f"together={max(1, sentences // ENOUGH)}"
        )
    return together


def run() -> None:
    folders, keys = folders_and_keys(sys.argv[1:])
    settings, _ = read_arguments("compare", keys, usage=__doc__)
    print(compare(folders, settings))


def main() -> None:
    with in_plain_words():
        run()
