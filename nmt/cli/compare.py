"""Compare runs, on a page that opens from the disk and in tables.

    python compare.py RUN_OR_SWEEP … [output=compare.html] [test=NAME] [baseline=RUN] [resamples=1000]

Give folders of runs, of sweeps, or folders that hold such folders. The page has the leaderboard, learning curves,
settings, BLEU by length and every sentence with its alignments. The tables lie beside it, as Markdown and as JSON.
Runs that cannot be compared are listed with the reason. All keys and their defaults are in conf/compare.yaml.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.config.installation import name_command
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.report.compare.statistics import compute_tables
from nmt.report.compare.systems import ComparedSystems, find_systems
from nmt.report.load.evaluated_runs import load_runs
from nmt.report.load.learning_curves import load_curves
from nmt.report.render.html_page import render_page
from nmt.report.render.markdown import render_comparison
from nmt.report.render.page_payload import pack_alignments
from nmt.system.files import check_writable, write_json, write_text


def compare(folders: Sequence[str], settings: DictConfig) -> str:
    """Write the page and its tables; return a line that sums them up."""
    output = _check_settings(settings)
    if not folders:
        raise UserError(f"nothing to compare. Fix: {name_command('compare')} RUN_OR_SWEEP … (--help explains more)")

    # load: folders that anyone may have written → frozen values
    loaded = load_runs(folders, settings.test)
    compared = find_systems(loaded, settings.baseline)  # now, because curves and alignments are read of these alone
    _check_together(settings.together, compared)
    curves = {run.folder: load_curves(run) for run in compared.runs}
    alignments, alignment_notes = pack_alignments(compared.runs, settings.megabytes * 1e6)
    notes = [
        {"run": run.name, "note": note}
        for run, lost in zip(compared.runs, alignment_notes, strict=True)
        for note in (*run.notes, *lost, *curves[run.folder].notes)
    ]

    # compare: values → statistics
    drawing = {"resamples": settings.resamples, "together": settings.together}
    tables = compute_tables(compared, curves, notes, drawing)

    # render: statistics → HTML, Markdown, JSON
    write_text(output, render_page(tables, compared, curves, alignments))
    write_text(output.with_suffix(".md"), render_comparison(tables))
    write_json(output.with_suffix(".json"), tables)
    size = f"{output.stat().st_size / 1e6:.1f} MB"
    return f"{output}, {output.stem}.md, {output.stem}.json: {_sum_up(compared)}; {size}"


def _sum_up(compared: ComparedSystems) -> str:
    sentences = len(compared.runs[0].evaluation.sentences)
    counts = ((len(compared.systems), "system"), (len(compared.runs), "run"), (sentences, "sentence"))
    systems, runs, sentences = (f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts)
    others = f"; {len(compared.left_out)} not compared" if compared.left_out else ""
    return f"{systems} of {runs} on {compared.test}, {sentences}{others}"


def _check_settings(settings: DictConfig) -> Path:
    """Return the path of the page, after a check that it can be written."""
    output = Path(str(settings.output))
    if output.suffix != ".html":
        fix = f"output={output.with_suffix('.html')}, beside which .md and .json are written"
        raise ConfigurationError(f"output={output}: must end with .html. Fix: {fix}")
    for key, least in (("resamples", 1), ("together", 1), ("megabytes", 0)):
        if settings[key] is None or settings[key] < least:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least {least}")
    check_writable(output.parent, f"output={output}")
    return output


def _check_together(together: int, compared: ComparedSystems) -> None:
    """Refuse few blocks of sentences: with two of them, p is too small for half of the pairs of equal systems."""
    sentences = len(compared.runs[0].evaluation.sentences)
    if together > 1 and sentences < MIN_SENTENCES * together:
        blocks = f"the {sentences} sentences of {compared.test} make fewer than {MIN_SENTENCES} blocks"
        raise ConfigurationError(f"together={together}: {blocks}. Fix: together={max(1, sentences // MIN_SENTENCES)}")


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the folders and the KEY=VALUE arguments; a folder may have = in its name, but not behind a key."""
    known = [str(key) for key in load_defaults("compare")]
    folders, keys = [], []
    for argument in arguments:
        key, is_pair, _ = argument.partition("=")
        if (is_pair and key in known) or argument in ("-h", "--help", "help"):
            keys.append(argument)
        elif is_pair and "/" not in argument and not Path(argument).exists():
            raise ConfigurationError(f"{argument}: no such key and no such folder. Fix: keys are {', '.join(known)}")
        else:
            folders.append(argument)
    return folders, keys


@exit_with_one_line_errors
def main() -> None:
    """Compare the runs that the command line names."""
    folders, keys = split_arguments(sys.argv[1:])
    settings, _ = read_arguments("compare", keys, usage=__doc__)
    print(compare(folders, settings))
