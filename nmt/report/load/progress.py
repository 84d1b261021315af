"""Read how far runs are: status, steps, learning curves, and translations of the last validation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.report.load.learning_curves import Curves, load_curves
from nmt.report.load.run_folder import RunFolder
from nmt.report.load.run_names import remove_seed
from nmt.runs.folder import METRICS, SAMPLES
from nmt.system.safe_files import UnreadableError, inside, is_number, read_json, read_or_note

ENDED, ONGOING = ("failed", "interrupted"), ("waiting", "running")
MAX_SAMPLES = 100  # sentences of a validation


def read_progress(run: RunFolder, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far a run is; runs of one `group` differ in the seed alone.

    `job` is the run's entry in sweep.json, empty if it is not of a sweep.
    """
    status, reason = _find_status(run, job)
    curves = load_curves(run) if (run.folder / METRICS).exists() else Curves({}, None)
    samples, lost = read_or_note(lambda: _read_samples(run.folder), "no translations of the validation", {})
    planned = run.summary.get("planned_steps")
    last_steps = [steps[-1] for chart in curves.series.values() for steps, _ in chart.values()]
    bleu = curves.series.get("bleu", {}).get("valid/bleu", [[], []])[1]
    return {
        "name": run.name,
        "folder": str(run.folder),
        "group": remove_seed(run.name) or "all seeds",
        "status": status,
        "notes": [*filter(None, [reason]), *curves.notes, *lost],
        "steps": int(max(last_steps, default=-1)) + 1,
        "planned": planned if is_number(planned) else None,
        "valid_bleu": {"last": bleu[-1], "best": max(bleu)} if bleu else None,
        "changed": _find_time(run.folder / METRICS),
        "curves": curves.series,
        "samples": samples,
    }


def _find_status(run: RunFolder, job: Mapping[str, Any]) -> tuple[str, str]:
    """Return the status of a run and a reason; a sweep also knows of jobs that were killed or have not begun."""
    if not run.problem:
        return "completed", ""
    status, _, reason = run.problem.partition(": ")
    if job.get("status") in ENDED:
        return job["status"], str(job.get("error") or reason).split("\n")[0]
    if job.get("status") in ONGOING:
        return job["status"], ""
    return (status, reason) if status in (*ENDED, *ONGOING, "completed") else ("unknown", run.problem)


def _find_time(path: Path) -> float | None:
    """Return when a file was written last; None if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _read_samples(folder: Path) -> dict[str, Any]:
    """Return the step of the last validation, and the source, reference and translation of its first sentences."""
    if not (folder / SAMPLES).exists():
        return {}
    stored = read_json(inside(folder, SAMPLES))
    step, rows = stored.get("step"), stored.get("sentences")
    is_table = isinstance(rows, list) and all(isinstance(row, list) and len(row) == 3 for row in rows)
    if not is_number(step) or not is_table or not all(isinstance(text, str) for row in rows for text in row):
        raise UnreadableError(f"{SAMPLES} holds no sentences")
    return {"step": step, "sentences": rows[:MAX_SAMPLES]}
