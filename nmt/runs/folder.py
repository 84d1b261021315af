"""A run's folder: what training leaves behind and everything after it reads.

    .hydra/ · checkpoints/{best,last,previous}.ckpt · metrics.csv · summary.json · train.log · tokenizer files
    word_table.tsv.gz · candidates.npz · <test set>/{hypotheses.txt,sentences.jsonl,scores.json,alignments.npz} · wandb/

A sweep's folder holds sweep.json and its jobs' folders. Nothing here needs torch.
"""

import csv
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.config.diff import is_within, name_of

CHECKPOINTS, BEST, LAST, PREVIOUS = "checkpoints", "best.ckpt", "last.ckpt", "previous.ckpt"
COMPOSITION = ".hydra"  # as Hydra writes it; checkpoints keep a copy
CONFIG, OVERRIDES, CHOICES = f"{COMPOSITION}/config.yaml", f"{COMPOSITION}/overrides.yaml", f"{COMPOSITION}/hydra.yaml"
METRICS, SUMMARY, SWEEP, SCORES = "metrics.csv", "summary.json", "sweep.json", "scores.json"
CANDIDATES, WORD_TABLE = "candidates.npz", "word_table.tsv.gz"


def read_summary(folder: Path) -> dict[str, Any]:
    """Of a run's folder; empty where there is none yet, or half of one."""
    try:
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def has_checkpoint(folder: Path) -> bool:
    return any((folder / CHECKPOINTS / name).is_file() for name in (BEST, LAST, PREVIOUS))


def jobs_of(sweep: Path) -> set[Path]:
    """The folders of the jobs that its last command started, as sweep.json tells; empty where nothing does."""
    try:
        jobs = json.loads((sweep / SWEEP).read_text(encoding="utf-8"))["jobs"]
        return {(sweep / job["folder"]).resolve() for job in jobs}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()


def read_metrics(path: Path) -> list[dict[str, str]]:
    """Rows of a metrics.csv, with values in some of the columns; none where there is no such file yet."""
    try:
        return rows_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []


def rows_of(metrics: str) -> list[dict[str, str]]:
    """Of a line that is not finished nothing, nor of one that a machine without power left blank."""
    finished, _, _ = metrics.rpartition("\n")
    return list(csv.DictReader(line for line in finished.splitlines() if line.strip("\0")))


def scores_path(folder: Path, test: str | None) -> Path:
    """Where a run's scores on a test set are."""
    return folder / name_of_test(test) / SCORES


def name_of_test(named: Any) -> str:
    """Where none is named, the validation set is one too."""
    return str(named or "valid")


def is_scored(folder: Path, test: str | None, unknown: str) -> bool:
    """Whether its best weights were scored on this test set with unknown words treated this way; or others by several
    checkpoints together, or by a search of the user's own, which a plain evaluation is not to replace. Scores of
    another text that lie under the test set's name are none of it."""
    try:
        stored = json.loads(scores_path(folder, test).read_text(encoding="utf-8"))
        other_text = changes_of_test(test, stored.get("data_overrides", []))
        return stored["unknown"] == unknown and not other_text and not _of_other_weights(folder, stored.get("members"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def changes_of_test(test: str | None, data_overrides: Iterable[str]) -> list[str]:
    """What of evaluate.py's `data.` keys changes a test set's sentences or references; data.dir only moves them."""
    own = f"data.tests.{test}" if name_of_test(test) != "valid" else "data.valid"
    of_links = (f"{own}.alignments", f"{own}.alignments_base")
    return [
        override
        for override in data_overrides
        if is_within(name := name_of(override), (own, "data.reader")) and not is_within(name, of_links)
    ]


def _of_other_weights(folder: Path, members: Any) -> bool:
    """Where both say which they are, and the best are still there."""
    if not (folder / CHECKPOINTS / BEST).is_file():
        return False
    match members, read_summary(folder).get("best"):
        case [{"checkpoint": str(path), "step": int(step)}], {"checkpoint": str(best), "step": int(at)}:
            return Path(best).name == BEST and (Path(path).name, step) != (BEST, at)
    return False


def give_back_composition(folder: Path) -> None:
    """Puts back the run's own .hydra, which Hydra has overwritten with that of a refused command."""
    kept = folder / CHECKPOINTS / COMPOSITION  # by whatever trains there, or has
    if kept.is_dir():
        shutil.copytree(kept, folder / COMPOSITION, dirs_exist_ok=True)
