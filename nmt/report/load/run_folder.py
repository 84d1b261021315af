"""Find run folders on a disk and read the small files in them: summary, command line, settings.

Folders may be half written or damaged. A file that cannot be read is noted, and never costs another run.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.errors import UserError, list_first
from nmt.report.load.run_names import name_runs
from nmt.runs.folder import (
    CHECKPOINTS,
    CHOICES,
    COMPOSITION,
    CONFIG,
    METRICS,
    OVERRIDES,
    SCORES,
    SETTINGS,
    SUMMARY,
    SWEEP,
    WEIGHTS,
    name_of_test,
    read_sweep_jobs,
)
from nmt.system.files import suggest_path, to_path
from nmt.system.safe_files import UnreadableError, inside, is_number, read_json, read_or_note, read_text, read_yaml

MARKS = (SUMMARY, METRICS, CHECKPOINTS, COMPOSITION, WEIGHTS)  # a folder with any of them is a run's
MAX_DEPTH = 6  # of folders in which runs are searched


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A run on disk, or the evaluation of a run that lies elsewhere."""

    name: str = ""
    folder: Path
    trained: Path | None  # where it was trained; None: an ensemble, or a run that was deleted
    summary: dict[str, Any]  # its status alone if summary.json is missing or damaged
    problem: str  # why the run is not completed; empty: it is
    overrides: list[str]
    tests: list[str]  # the test sets it was evaluated on
    notes: tuple[str, ...] = ()  # what could not be read

    @property
    def training(self) -> Path:
        """The folder where files of the training are searched."""
        return self.trained or self.folder

    @property
    def seconds(self) -> Any:
        """The time of the training; for a run from before this was stored, that of the whole command."""
        return self.summary.get("train_seconds", self.summary.get("wall_seconds"))

    @property
    def best(self) -> dict[str, Any]:
        """The metric and the score of the best checkpoint; empty if there is none."""
        best = self.summary.get("best")
        metric, score = (best.get("metric"), best.get("score")) if isinstance(best, Mapping) else (None, None)
        return {"metric": metric, "score": score} if isinstance(metric, str) and is_number(score) else {}


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run."""

    config: dict[str, Any]  # interpolations unresolved; empty: not known
    text: str  # of the configuration file
    choices: dict[str, str]  # by config group; empty: not known
    notes: tuple[str, ...] = ()

    @property
    def seed(self) -> int | None:
        """The seed of the weights; None if it is missing or not a number."""
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def seeds(self) -> tuple[int | None, int | None]:
        """The seeds of the weights and of the order of batches, which is the same unless it is set."""
        order = self._data.get("seed")
        return self.seed, order if isinstance(order, int) else self.seed

    @property
    def test(self) -> str | None:
        """The test set that the run is evaluated on by default; None if it is not known."""
        return name_of_test(self._data.get("test")) if isinstance(self.config.get("data"), Mapping) else None

    def has_test(self, name: str) -> bool:
        """Return True if the settings define a test set of this name."""
        tests = self._data.get("tests")
        return name == "valid" or (isinstance(tests, Mapping) and name in tests)

    @property
    def rows(self) -> list[str]:
        """The names of the run's rows in the paper's tables."""
        paper = self.config.get("paper")
        rows = paper.get("rows") if isinstance(paper, Mapping) else None
        return [str(row) for row in rows.values()] if isinstance(rows, Mapping) else []

    @property
    def _data(self) -> Mapping[str, Any]:
        data = self.config.get("data")
        return data if isinstance(data, Mapping) else {}


def find_runs(paths: Sequence[str]) -> list[RunFolder]:
    """Return the runs in these folders, each once, and the jobs of their sweeps that have not begun."""
    refuse_files(paths)
    runs: dict[Path, RunFolder] = {}
    for path in map(to_path, paths):
        if not path.is_dir():
            raise UserError(f"{path}: no such folder{suggest_path(path)}")
        for run in _find_runs_under(path):
            runs.setdefault(run.folder.resolve(), run)
    if not runs:
        raise UserError(f"{list_first(paths)}: no run there. Fix: name a folder with a summary.json or one above it")
    names = name_runs([run.folder for run in runs.values()], [run.overrides for run in runs.values()])
    return [replace(run, name=name) for run, name in zip(runs.values(), names, strict=True)]


def refuse_files(paths: Sequence[str]) -> None:
    """Raise UserError if a path is that of a file."""
    for path in paths:
        if to_path(path).is_file():
            raise UserError(f"{path}: is a file. Fix: name the folder of a run or of a sweep")


def _find_runs_under(path: Path) -> Iterator[RunFolder]:
    """Yield the runs under a folder, then the jobs that have not begun; a run's folder holds no other runs."""
    waiting: list[RunFolder] = []
    for folder, inner, files in walk(path):
        if SWEEP in files:
            waiting += _read_waiting_jobs(folder)
        elif _is_trained(folder) or _read_members(folder):
            inner.clear()
            yield read_run(folder)
        inner[:] = sorted((name for name in inner if not name.startswith(".")), key=_natural_order)
        if len(folder.parts) - len(path.parts) >= MAX_DEPTH:
            inner.clear()
    yield from waiting


def walk(folder: str | Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk like os.walk, also along links, because a run may lie on another disk; each folder once."""
    seen: set[str] = set()
    for place, inner, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()
        else:
            seen.add(real)
            yield Path(place), inner, files


def _natural_order(name: str) -> list[tuple[int, Any]]:
    """Sort seed=2 before seed=10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def _is_trained(folder: Path) -> bool:
    return any(os.path.exists(folder / mark) for mark in MARKS)  # False for names that no file can have


def _read_members(folder: Path) -> list[Any]:
    """Return the runs that the evaluations in a folder are of."""
    for path in sorted(folder.glob(f"*/{SCORES}")):
        try:
            members = read_json(inside(folder, path.relative_to(folder))).get("members")
        except UnreadableError:
            continue
        if isinstance(members, list):
            return members
    return []


def read_run(folder: Path) -> RunFolder:
    """Read a run's folder, or the folder of an evaluation."""
    trained, notes = _find_training(folder)
    summary, problem = _read_summary(trained)
    overrides, missing = read_overrides(trained or folder)
    tests = sorted(path.parent.name for path in folder.glob(f"*/{SCORES}"))
    notes = missing if trained else notes
    return RunFolder(
        folder=folder, trained=trained, summary=summary, problem=problem, overrides=overrides, tests=tests, notes=notes
    )


def _find_training(folder: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Return the folder of the training, and a note if it is gone.

    Results that `evaluate.py output=FOLDER` wrote elsewhere name their run. An ensemble was not trained.
    """
    match [] if _is_trained(folder) else _read_members(folder):
        case []:
            return folder, ()
        case [{"run": str(run)}] if _is_trained(Path(run)):
            return Path(run), ()
        case [{"run": run}]:
            return None, (f"{run}, which was evaluated, is not there: its settings are not known",)
    return None, ()


def _read_summary(trained: Path | None) -> tuple[dict[str, Any], str]:
    """Return the summary of a run, and why the run is not completed."""
    if trained is None:
        return {"status": "ensemble"}, ""
    if _is_shared(trained):
        return {"status": "shared"}, ""
    try:
        summary = read_json(inside(trained, SUMMARY))
    except UnreadableError as error:
        return {"status": str(error)}, str(error)
    status = summary.get("status")
    if status in ("completed", "ensemble"):
        return summary, ""
    error = str(summary.get("error", "")).strip().split("\n")[0]
    return summary, f"{status or 'summary.json has no status'}{f': {error}' if error else ''}"


def _is_shared(folder: Path) -> bool:
    """Return whether a folder holds a shared model, without the files of its training."""
    return (folder / WEIGHTS).is_file() and not (folder / SUMMARY).exists()


def read_overrides(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the command line of a run, and a note if it cannot be read."""
    if _is_shared(folder):
        return [], ()
    overrides, notes = read_or_note(lambda: read_yaml(inside(folder, OVERRIDES)), "its command line is not known", [])
    return [str(override) for override in overrides] if isinstance(overrides, list) else [], notes


def read_settings(run: RunFolder) -> RunSettings:
    """Read the settings of a run; where they are damaged, return none and a note."""
    name = SETTINGS if _is_shared(run.training) else CONFIG
    config, notes = read_or_note(lambda: _read_config(inside(run.training, name)), "its settings are not known", {})
    config = config if isinstance(config, dict) else {}
    text = read_text(run.training / name, name) if config else ""
    return RunSettings(config, text, read_choices(run.training), notes if run.trained else ())


def _read_config(path: Path) -> Any:
    return read_json(path).get("config") if path.name == SETTINGS else read_yaml(path)


def read_choices(folder: Path) -> dict[str, str]:
    """Return the choice of each config group, as Hydra stored it; empty if it cannot be read."""
    try:
        choices = read_yaml(inside(folder, CHOICES))["hydra"]["runtime"]["choices"]
    except (UnreadableError, LookupError, TypeError):
        return {}
    items = choices.items() if isinstance(choices, dict) else ()
    return {str(group): str(choice) for group, choice in items if choice is not None}


def _read_waiting_jobs(sweep: Path) -> list[RunFolder]:
    """Return the jobs of a sweep that have no folder; none if sweep.json is damaged."""
    try:
        waiting = [job for name, job in read_sweep_jobs(sweep).items() if not (sweep / name).is_dir()]
        return [_read_waiting_job(sweep / job["folder"], str(job["status"]), job["overrides"]) for job in waiting]
    except (LookupError, OSError, TypeError):
        return []


def _read_waiting_job(folder: Path, status: str, given: Sequence[Any]) -> RunFolder:
    reason = "it has not begun" if status in ("waiting", "running") else "its folder is gone"
    summary, problem, overrides = {"status": status}, f"{status}: {reason}", list(map(str, given))
    return RunFolder(folder=folder, trained=folder, summary=summary, problem=problem, overrides=overrides, tests=[])


def find_wandb(run: RunFolder) -> str | None:
    """Return the newest folder of W&B files, which `wandb sync` can upload."""
    folders = sorted((run.training / "wandb").glob("*run-*"), key=lambda path: path.name.partition("run-")[2])
    return str(folders[-1]) if folders else None
