"""Run folders as they are found on a disk: whole, half written, or damaged.

A file that cannot be read costs what it holds, and is told; it never costs another run.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import UserError
from nmt.report.load.evaluation import Evaluated, checkpoint_of, read_evaluated
from nmt.report.load.learning_curves import Curves, read_curves
from nmt.report.load.safe_files import UnreadableError, is_number, read_json, read_text, read_yaml
from nmt.runs.folder import CHECKPOINTS, CHOICES, COMPOSITION, CONFIG, METRICS, OVERRIDES, SUMMARY, SWEEP, name_of_test

MARKS = (SUMMARY, METRICS, CHECKPOINTS, COMPOSITION)  # any of them makes a folder a run's
DEEPEST = 6  # folders below the one named, where runs are looked for


class LeftOut(NamedTuple):
    """What is not compared."""

    run: str
    reason: str


@dataclass
class RunFolder:
    """What is known of a run, or of an evaluation; `notes` tell what could not be read, or does not belong together."""

    folder: Path
    name: str = ""
    state: str = ""  # of a job that has not begun
    notes: list[str] = field(default_factory=list)

    @cached_property
    def trained(self) -> Path | None:
        """Where: results that `evaluate.py output=FOLDER` laid elsewhere say of which run they are. An ensemble was
        trained nowhere; of a run that is gone it is not known."""
        members = [] if self.state or _is_trained(self.folder) else _members(self.folder)
        match members:
            case []:
                return self.folder
            case [{"run": str(run)}] if _is_trained(Path(run)):
                return Path(run)
            case [{"run": run}]:
                self.notes.append(f"{run}, which was evaluated, is not there: its settings are not known")
        return None

    def _left(self, name: str) -> Path:
        """What training left."""
        return (self.trained or self.folder) / name

    @cached_property
    def summary(self) -> dict[str, Any]:
        return read_json(self._left(SUMMARY)) if self.trained else {"status": "ensemble"}

    @cached_property
    def config(self) -> dict[str, Any]:
        """As composed, interpolations unresolved."""
        found = self._noted(lambda: read_yaml(self._left(CONFIG)), "its settings are not known", {})
        return found if isinstance(found, dict) else {}

    @property
    def config_text(self) -> str:
        return read_text(self._left(CONFIG), "") if self.config else ""

    @cached_property
    def overrides(self) -> list[str]:
        path = self._left(OVERRIDES)
        found = self._noted(lambda: read_yaml(path), "its command line is not known", [])
        return [str(override) for override in found] if isinstance(found, list) else []

    @cached_property
    def choices(self) -> dict[str, str]:
        """Group by group what was chosen, where Hydra says so."""
        try:
            found = read_yaml(self._left(CHOICES))["hydra"]["runtime"]["choices"]
        except (UnreadableError, LookupError, TypeError):
            return {}
        items = found.items() if isinstance(found, dict) else ()
        return {str(group): str(choice) for group, choice in items if choice is not None}

    @cached_property
    def curves(self) -> Curves:
        return self._noted(lambda: read_curves(self._left(METRICS)), "no learning curves", Curves({}, None))

    @property
    def seed(self) -> int | None:
        """None where the settings do not say it as a number."""
        found = self.config.get("seed")
        return found if isinstance(found, int) else None

    @property
    def seeds(self) -> tuple[int | None, int | None]:
        """Of the weights, and of the order of batches: the same unless the settings say another."""
        data = self.config.get("data")
        order = data.get("seed") if isinstance(data, Mapping) else None
        return self.seed, order if isinstance(order, int) else self.seed

    @property
    def code(self) -> Any:
        """Of models and training, each that it was trained by; None where its summary does not say so."""
        return self.summary.get("code")

    @property
    def best(self) -> dict[str, Any]:
        """The score that its best checkpoint was chosen by, and its name; empty where it has none."""
        found = self.summary.get("best")
        told = found if isinstance(found, Mapping) else {}
        metric, score = told.get("metric"), told.get("score")
        return {"metric": metric, "score": score} if isinstance(metric, str) and is_number(score) else {}

    @property
    def own_test(self) -> str | None:
        """The test set that it is evaluated on where none is named."""
        data = self.config.get("data")
        return name_of_test(data.get("test")) if isinstance(data, Mapping) else None

    @property
    def tests(self) -> list[str]:
        return sorted(path.parent.name for path in self.folder.glob("*/scores.json"))

    @property
    def wandb(self) -> str | None:
        """Where its W&B files are; what is offline can be sent."""
        found = sorted(self._left("wandb").glob("*run-*"))
        return str(found[-1]) if found else None

    def must_be_completed(self) -> None:
        if self.state:
            raise UnreadableError(f"{self.state}: it has not begun")
        status = self.summary.get("status")
        if status in ("completed", "ensemble"):
            return
        error = str(self.summary.get("error", "")).strip().split("\n")[0]
        raise UnreadableError(f"{status or 'summary.json has no status'}{f': {error}' if error else ''}")

    def on(self, test: str) -> Evaluated:
        if not (self.folder / test / "scores.json").is_file():
            others = f"; it was on {', '.join(self.tests)}" if self.tests else ""
            raise UnreadableError(f"not evaluated on {test}{others}: python evaluate.py run=FOLDER data.test={test}")
        found = read_evaluated(self.folder / test)
        if note := self.trained_later(found.weights) or self._not_its_best(found.weights):
            self.notes.append(note)
        if found.other_text and self._has_of_its_own(test):
            self.notes.append(f"evaluated with {' '.join(found.other_text)}: maybe another text than its own {test}")
        return found

    def _has_of_its_own(self, test: str) -> bool:
        """Whether its settings know a test set of this name."""
        data = self.config.get("data")
        tests = data.get("tests") if isinstance(data, Mapping) else None
        return test == "valid" or (isinstance(tests, Mapping) and test in tests)

    def trained_later(self, evaluated: tuple[str, int] | None) -> str:
        """The scores are then of other weights than the curves, the steps and the time; empty: it was not."""
        best = checkpoint_of([self.summary.get("best")])
        if not (evaluated and best and evaluated[0] == best[0] and evaluated[1] != best[1]):
            return ""
        how = "further" if best[1] > evaluated[1] else "anew"
        return f"evaluated at step {evaluated[1]}, trained {how} since; evaluate it again"

    def _not_its_best(self, evaluated: tuple[str, int] | None) -> str:
        best = checkpoint_of([self.summary.get("best")])
        other = evaluated and best and evaluated != best
        return f"evaluated with {evaluated[0]}, step {evaluated[1]}; its best is {best[0]}" if other else ""

    def _noted(self, read: Any, cost: str, instead: Any) -> Any:
        try:
            return read()
        except UnreadableError as error:
            if self.trained:
                self.notes.append(f"{error}: {cost}")
            return instead


def find_runs(paths: Sequence[str]) -> list[RunFolder]:
    """Each once, in the order given; jobs of a sweep that have not begun are among them."""
    found: dict[Path, RunFolder] = {}
    for path in map(Path, paths):
        if path.is_file():
            raise UserError(f"{path}: is a file; name the folder of a run, or of a sweep")
        if not path.is_dir():
            raise UserError(f"{path}: no such folder")
        for run in _runs_under(path):
            found.setdefault(run.folder.resolve(), run)
    runs = list(found.values())
    if not runs:
        named = ", ".join(paths)
        raise UserError(f"{named}: no run there; a run's folder holds summary.json, a sweep's holds runs' folders")
    for run, name in zip(runs, names_of([run.folder for run in runs]), strict=True):
        run.name = name
    return runs


def _runs_under(path: Path) -> Iterator[RunFolder]:
    """What lies in a run is no other run; sweeps' jobs that have not begun come last."""
    waiting = []
    for place, inner, files in os.walk(path):
        folder = Path(place)
        if SWEEP in files:
            waiting += _not_begun(folder)
        elif _is_trained(folder) or _members(folder):
            inner.clear()
            yield RunFolder(folder)
        inner[:] = sorted((name for name in inner if not name.startswith(".")), key=_naturally)
        if len(folder.parts) - len(path.parts) >= DEEPEST:
            inner.clear()
    yield from waiting


def _is_trained(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in MARKS)


def _members(folder: Path) -> list[Any]:
    """The runs that an evaluation there is of."""
    for path in sorted(folder.glob("*/scores.json")):
        try:
            members = read_json(path).get("members")
        except UnreadableError:
            continue
        if isinstance(members, list):
            return members
    return []


def _not_begun(path: Path) -> list[RunFolder]:
    try:
        jobs = read_json(path / SWEEP)["jobs"]
        missing = [job for job in jobs if _is_name(job["folder"]) and not (path / job["folder"]).is_dir()]
        runs = [RunFolder(path / job["folder"], state=str(job["status"])) for job in missing]
        for run, job in zip(runs, missing, strict=True):
            run.overrides = [str(override) for override in job["overrides"]]
    except (UnreadableError, LookupError, OSError, TypeError):
        return []
    return runs


def _is_name(text: Any) -> bool:
    """Of a folder that lies where it is said to: not a path that leads elsewhere."""
    return isinstance(text, str) and text.isprintable() and not set(text) & set("/\\") and text not in ("", ".", "..")


def names_of(folders: Sequence[str | Path]) -> list[str]:
    """What is left of each path without the folders that all of them lie in."""
    absolute = [Path(os.path.abspath(folder)) for folder in folders]
    shared = os.path.commonpath([path.parent for path in absolute]) if absolute else ""
    return [path.relative_to(shared).as_posix() for path in absolute]


def _naturally(name: str) -> list[tuple[int, Any]]:
    """seed=2 before seed=10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]
