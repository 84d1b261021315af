"""Data of a comparison that changes while its runs go on."""

import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from nmt.errors import UserError, first_line
from nmt.report.comparison import compare_runs
from nmt.report.load.progress import read_progress
from nmt.report.load.run_folder import MAX_DEPTH, RunFolder, find_runs, read_sweep_jobs, walk
from nmt.runs.folder import CHECKPOINTS, COMPOSITION, METRICS, SAMPLES, SCORES, SUMMARY, SWEEP
from nmt.system.files import dump_json
from nmt.system.load import measure_load

SECONDS_BETWEEN_READS = 1.0
WATCHED = {SUMMARY, METRICS, SAMPLES, SCORES, SWEEP}  # files
LOGS = (METRICS, SAMPLES)  # change all the time, but not the list of runs
NOT_WATCHED = (CHECKPOINTS, "wandb")  # folders
NOT_EVALUATED = (
    "No completed run was evaluated on a test set yet: tables and test sentences follow. "
    "Fix: score_test=true evaluates each run at its end"
)
COMPARING = "The evaluated runs are being compared."
BY_FOLDER = ("curves", "samples")  # parts of their own, because they change less often
FileStates = Mapping[Path, tuple[int, int]]  # time and size by path


class Part(NamedTuple):
    """A part of the page's data, and a tag that changes with it."""

    tag: str
    content: Any
    text: str  # JSON of the content


class Row(NamedTuple):
    """How far a run is."""

    key: Any  # what it depends on
    job: dict[str, Any]
    by_folder: dict[str, Any]
    texts: dict[str, str]  # JSON of `by_folder`, kept because curves are long


class LiveComparison:
    """The data of the page in parts: `jobs`, `curves`, `samples`, `comparison`, `messages` and `machine`.

    Args:
        folders: Folders of runs and sweeps, which need not exist yet.
        settings: Settings of conf/compare.yaml.
    """

    def __init__(self, folders: Sequence[str], settings: DictConfig):
        self.folders, self.settings = folders, settings
        self.parts: dict[str, Part] = {}
        self.read_at = 0.0
        self.files: FileStates | None = None  # when they were read last
        self.existing: list[str] = []  # the folders that are there
        self.runs: list[RunFolder] = []
        self.names: dict[Path, str] = {}  # of all runs that were ever there
        self.missing: list[str] = []  # messages about folders that are not there
        self.rows: dict[Path, Row] = {}  # by the folder of the run
        self.first_steps: dict[Path, tuple[float, int]] = {}  # of each running run: time and steps when first seen
        self.compared: Any = []  # the results that the comparison is of
        self.failure = ""  # why the last comparison failed
        self.worker: threading.Thread | None = None
        self._set("comparison", None)

    def update(self) -> None:
        """Read the files that changed since the last call."""
        if time.monotonic() - self.read_at < SECONDS_BETWEEN_READS:
            return
        files = watch_files(self.folders)
        if files != self.files:
            is_same_but_logs = self.files is not None and leave_out_logs(files) == leave_out_logs(self.files)
            self.files = files
            if not is_same_but_logs:
                self._find_runs()
            self._read_jobs()
        results = self._list_results()
        if results != self.compared and not (self.worker and self.worker.is_alive()):
            self.worker = threading.Thread(target=self._compare, args=[results], daemon=True)
            self.worker.start()
        self._set("messages", self._list_messages(bool(results)))
        self._set("machine", measure_load() | {"time": round(time.time())})
        self.read_at = time.monotonic()

    def list_changes(self, known: Mapping[str, str]) -> str:
        """Return JSON of the parts whose tags are not known; an empty text if there are none."""
        changed = {name: part for name, part in self.parts.items() if known.get(name) != part.tag}
        texts = [f'"{name}":{{"tag":"{part.tag}","content":{part.text}}}' for name, part in changed.items()]
        return f"{{{','.join(texts)}}}" if texts else ""

    def page_data(self) -> dict[str, Any]:
        """Return all data of this moment by name, as the page holds them."""
        parts = dict(self.parts)  # because the comparison is replaced by another thread
        contents = {name: part.content for name, part in parts.items()}
        tags = {name: part.tag for name, part in parts.items()}
        comparison = contents.pop("comparison") or {}
        return contents | comparison | {"tags": tags}

    def _set(self, name: str, content: Any, text: str = "") -> None:
        text = text or dump_json(content, separators=(",", ":"))
        self.parts[name] = Part(blake2b(text.encode(), digest_size=8).hexdigest(), content, text)

    def _find_runs(self) -> None:
        self.existing = [folder for folder in self.folders if Path(folder).is_dir()]
        self.missing = [f"{folder}: no such folder yet" for folder in self.folders if folder not in self.existing]
        try:
            self.runs = find_runs(self.existing) if self.existing else []
        except (UserError, OSError) as error:  # no run there, or a folder was removed while it was read
            self.runs = []
            self.missing.append(str(error))
        listed = {run.folder for run in self.runs}
        self.missing += [f"{name}: its folder is gone" for folder, name in self.names.items() if folder not in listed]
        self.names |= {run.folder: run.name for run in self.runs}

    def _read_jobs(self) -> None:
        """Set the parts about the runs that were trained where they lie."""
        jobs = {sweep: read_sweep_jobs(sweep) for sweep in dict.fromkeys(run.folder.parent for run in self.runs)}
        folders = [sweep / name for sweep, of_sweep in jobs.items() for name in of_sweep]
        places = {folder: place for place, folder in enumerate(folders)}
        trained = [run for run in self.runs if run.trained == run.folder]
        # in the order of their sweep, because colours follow it, and folders are made while the page is served
        trained.sort(key=lambda run: places.get(run.folder, len(places)))
        rows = [self._read_row(run, jobs[run.folder.parent].get(run.folder.name, {})) for run in trained]
        self._set("jobs", [row.job for row in rows])
        for name in BY_FOLDER:
            texts = (f"{dump_json(row.job['folder'])}:{row.texts[name]}" for row in rows)
            self._set(name, {row.job["folder"]: row.by_folder[name] for row in rows}, f"{{{','.join(texts)}}}")

    def _read_row(self, run: RunFolder, job: Mapping[str, Any]) -> Row:
        """Return how far a run is; its files are read only if they changed."""
        key = (run.name, run.problem, job, *(self.files.get(run.folder / name) for name in LOGS))
        if run.folder not in self.rows or self.rows[run.folder].key != key:
            row = read_progress(run, job)
            by_folder = {name: row.pop(name) for name in BY_FOLDER}
            texts = {name: dump_json(content, separators=(",", ":")) for name, content in by_folder.items()}
            row["seconds_left"] = self._estimate_rest(run.folder, row)
            self.rows[run.folder] = Row(key, row, by_folder, texts)
        return self.rows[run.folder]

    def _estimate_rest(self, folder: Path, row: Mapping[str, Any]) -> float | None:
        """Return the seconds that a run needs for its other steps, at its speed since the page has been served."""
        steps, changed = row["steps"], row["changed"]
        if row["status"] != "running" or not steps or changed is None:
            self.first_steps.pop(folder, None)
            return None
        first_changed, first = self.first_steps.setdefault(folder, (changed, steps))
        if steps < first:  # it was resumed from an earlier checkpoint
            self.first_steps[folder] = changed, steps
        if steps <= first or not row["planned"]:
            return None
        return max(0, row["planned"] - steps) * (changed - first_changed) / (steps - first)

    def _list_results(self) -> Any:
        """Return what the comparison depends on: the files of each evaluated run."""
        evaluated = [run for run in self.runs if not run.problem and run.tests]
        files = [[run.training / SUMMARY, *(run.folder / test / SCORES for test in run.tests)] for run in evaluated]
        return [(path, self.files.get(path)) for of_run in files for path in of_run]

    def _compare(self, results: Any) -> None:
        try:
            self._set("comparison", compare_runs(self.existing, self.settings).page_data() if results else None)
            self.failure = ""
        except UserError as error:
            self.failure = str(error)
        except Exception as error:  # files may vanish or change while they are read, in any line
            self.failure = f"the comparison is as before ({type(error).__name__}: {first_line(error)})"
        self.compared = results

    def _list_messages(self, is_evaluated: bool) -> list[str]:
        state = COMPARING if self.worker and self.worker.is_alive() else "" if is_evaluated else NOT_EVALUATED
        return [*self.missing, *filter(None, [self.failure, state if self.runs else ""])]


def leave_out_logs(files: FileStates) -> dict[Path, Any]:
    """Return the states of the files, without those of logs, of which only the paths are kept."""
    return {path: None if path.name in LOGS else state for path, state in files.items()}


def watch_files(folders: Sequence[str]) -> dict[Path, tuple[int, int]]:
    """Return time and size of each small file of the runs in these folders, and the folders of runs that begin."""
    states: dict[Path, tuple[int, int]] = {}
    for folder in folders:
        for path, inner, names in walk(folder):
            if COMPOSITION in inner:
                states[path] = (0, 0)
            for name in WATCHED.intersection(names):
                try:
                    status = (path / name).stat()
                except OSError:  # removed since it was listed
                    continue
                states[path / name] = status.st_mtime_ns, status.st_size
            is_deep = len(path.parts) - len(Path(folder).parts) > MAX_DEPTH
            inner[:] = [] if is_deep else [name for name in inner if name[:1] != "." and name not in NOT_WATCHED]
    return states
