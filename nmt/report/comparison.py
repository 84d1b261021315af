"""A comparison of runs: load → compare → render."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from nmt.config.installation import name_command
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.significance import MIN_SENTENCES
from nmt.report.compare.statistics import compute_tables
from nmt.report.compare.systems import ComparedSystems, find_systems
from nmt.report.load.evaluated_runs import load_runs
from nmt.report.load.learning_curves import Curves, load_curves
from nmt.report.render.html_page import collect_data, render_page
from nmt.report.render.markdown import render_comparison
from nmt.report.render.page_payload import pack_alignments
from nmt.runs.folder import refuse_own_files
from nmt.system.files import write_json, write_text

MAX_RESAMPLES = 10_000  # more take gigabytes, because each counts every sentence


@dataclass(frozen=True)
class Comparison:
    """Compared runs, and what the page needs of them."""

    compared: ComparedSystems
    tables: dict[str, Any]  # the content of compare.json
    curves: dict[Path, Curves]
    alignments: dict[str, Any]  # packed for the page

    def page_data(self) -> dict[str, Any]:
        """Return the data of the page, by name."""
        return collect_data(self.tables, self.compared, self.curves, self.alignments)

    def write(self, page: Path) -> None:
        """Write the page, and the tables beside it as Markdown and as JSON."""
        check_page(page)
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, render_page(self.page_data()))
        write_text(page.with_suffix(".md"), render_comparison(self.tables))
        write_json(page.with_suffix(".json"), self.tables)


def check_page(page: Path) -> None:
    """Refuse a page that is not NAME.html, and files that may belong to a run."""
    if page.suffix != ".html":
        fix = f"output={page.with_suffix('.html')}, beside which .md and .json are written"
        raise ConfigurationError(f"output={page}: must end with .html. Fix: {fix}")
    refuse_own_files(page, page.with_suffix(".md"), page.with_suffix(".json"))


def check_arguments(folders: Sequence[str], settings: DictConfig) -> None:
    """Refuse settings that no comparison can use, and a command without folders."""
    for key, least in (("resamples", 1), ("together", 1), ("megabytes", 0)):
        if settings[key] is None or settings[key] < least:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least {least}")
    if settings.resamples > MAX_RESAMPLES:
        raise ConfigurationError(f"resamples={settings.resamples}: must be at most {MAX_RESAMPLES}")
    if settings.evaluations not in ("all", "own"):
        raise ConfigurationError(f"evaluations={settings.evaluations}: choose all or own")
    if not folders:
        raise UserError(f"nothing to compare. Fix: {name_command('compare')} RUN_OR_SWEEP … (--help explains more)")


def compare_runs(folders: Sequence[str], settings: DictConfig) -> Comparison:
    """Compare the runs in these folders, as the settings of conf/compare.yaml say."""
    check_arguments(folders, settings)

    # load: folders that anyone may have written → frozen values
    loaded = load_runs(folders, settings.test, settings.evaluations)
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
    return Comparison(compared, compute_tables(compared, curves, notes, drawing), curves, alignments)


def _check_together(together: int, compared: ComparedSystems) -> None:
    """Refuse few blocks of sentences: with two of them, p is too small for half of the pairs of equal systems."""
    sentences = len(compared.runs[0].evaluation.sentences)
    if together > 1 and sentences < MIN_SENTENCES * together:
        blocks = f"the {sentences} sentences of {compared.test} make fewer than {MIN_SENTENCES} blocks"
        raise ConfigurationError(f"together={together}: {blocks}. Fix: together={max(1, sentences // MIN_SENTENCES)}")
