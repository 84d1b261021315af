"""A run's folder: the names of its files, and the small ones read.

    .hydra/ · checkpoints/{best,last,previous}.ckpt · metrics.csv · summary.json · train.log · tokenizer files
    valid_samples.json · word_table.tsv.gz · candidates.npz · wandb/
    <test set>/{hypotheses.txt,sentences.jsonl,scores.json,alignments.npz,forced_alignments.npz,traces.npz}
    <test set>,<KEY=VALUE>,…/ has the same files, of an evaluation with other settings than the run's own

A shared model's folder holds model.safetensors, config.json, README.md and the tokenizer files.
A sweep's folder holds sweep.json and the folders of its jobs. Nothing here needs torch.
"""

import csv
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hydra.errors import HydraException

from nmt.config.diff import is_within
from nmt.config.overrides import format_argument, read_leaves
from nmt.errors import ConfigurationError
from nmt.system.checksums import CHECKSUMS, find_damage
from nmt.system.safe_files import UnreadableError, check_regular, inside, read_json

log = logging.getLogger(__name__)

CHECKPOINTS, BEST, LAST, PREVIOUS = "checkpoints", "best.ckpt", "last.ckpt", "previous.ckpt"
COMPOSITION = ".hydra"  # as Hydra writes it; a copy lies beside the checkpoints
CONFIG, OVERRIDES, CHOICES = f"{COMPOSITION}/config.yaml", f"{COMPOSITION}/overrides.yaml", f"{COMPOSITION}/hydra.yaml"
LONGEST_ROW = 100_000  # characters of metrics.csv; a longer one is damaged, and more than the csv module reads
METRICS, SUMMARY, SWEEP, SCORES = "metrics.csv", "summary.json", "sweep.json", "scores.json"
LOCK = ".lock"  # of the training in a run's folder, and of the results in a test set's
CANDIDATES, WORD_TABLE, SAMPLES = "candidates.npz", "word_table.tsv.gz", "valid_samples.json"
WEIGHTS, SETTINGS, CARD = "model.safetensors", "config.json", "README.md"  # of a shared model
OWN_FILES = {METRICS, SUMMARY, SWEEP, SCORES, LOCK, CANDIDATES, WORD_TABLE, SAMPLES, WEIGHTS, SETTINGS}
OWN_FILES |= {BEST, LAST, PREVIOUS, "table.json", "table.md", "hypotheses.txt", "sentences.jsonl", "links.txt"}
# errors of reading damaged JSON
UNREADABLE = (UnreadableError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
UNREADABLE += (HydraException, ConfigurationError)  # errors of parsing the arguments in it


def refuse_own_files(output: Path, *written: Path) -> None:
    """Raise ConfigurationError if what a command writes for output= would replace a file that a run or sweep has."""
    for path in (output, *written):
        if path.name in OWN_FILES and path.exists():
            raise ConfigurationError(
                f"output={output}: would replace {path}, which may belong to a run. Fix: name another file"
            )


def read_summary(folder: Path) -> dict[str, Any]:
    """Return a run's summary.json; empty if it is missing or damaged."""
    try:
        return read_json(inside(folder, SUMMARY))
    except UNREADABLE:
        return {}


def has_checkpoint(folder: Path) -> bool:
    """Return whether a run has any checkpoint."""
    return any((folder / CHECKPOINTS / name).is_file() for name in (BEST, LAST, PREVIOUS))


def read_sweep_jobs(sweep: Path) -> dict[str, Any]:
    """Return the jobs in sweep.json by the name of their folder; none if it is missing or damaged."""
    try:
        return {job["folder"]: job for job in read_json(inside(sweep, SWEEP))["jobs"] if _is_folder_name(job["folder"])}
    except UNREADABLE:
        return {}


def _is_folder_name(text: Any) -> bool:
    """Return True for a plain name, which cannot lead out of the sweep's folder."""
    return isinstance(text, str) and text.isprintable() and not set(text) & set("/\\") and text not in ("", ".", "..")


def read_metrics(path: Path) -> list[dict[str, str]]:
    """Return the rows of a metrics.csv; none if there is no such file."""
    try:
        check_regular(path)
        return parse_metrics(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return []


def parse_metrics(text: str) -> list[dict[str, str]]:
    """Return the rows of metrics.csv, without an unfinished last line and damaged ones, as of a power failure."""
    complete, _, _ = text.rpartition("\n")
    return list(csv.DictReader(line for line in complete.splitlines() if "\0" not in line and len(line) < LONGEST_ROW))


def name_of_test(test: Any) -> str:
    """Return the name of a test set; where none is named, the validation set is scored."""
    return str(test or "valid")


def list_evaluations(folder: Path, test: str) -> list[str]:
    """Return the folders with evaluations on a test set: TEST, and TEST,KEY=VALUE,… of other settings."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{SCORES}"))
    return [name for name in names if test in (name, strip_settings(name))]


def strip_settings(evaluation: str) -> str:
    """Return the test set of an evaluation's folder: test of test,beam=10."""
    return evaluation.partition(",")[0]


def section_of_test(test: str | None) -> str:
    """Return the key of a test set's files."""
    return "data.valid" if name_of_test(test) == "valid" else f"data.tests.{test}"


def changes_of_test(test: str | None, data_overrides: Iterable[str]) -> list[str]:
    """Return the arguments of evaluate.py that change the text of a test set, or how BLEU counts."""
    section = section_of_test(test)
    changing = (section, "data.reader", "data.score")
    alignments = [f"{section}.alignments{part}" for part in ("", "_base", "_words")]
    given = read_leaves(data_overrides).items()
    return [format_argument(*one) for one in given if is_within(one[0], changing) and not is_within(one[0], alignments)]


def restore_composition(folder: Path) -> None:
    """Restore the run's own .hydra, which Hydra has overwritten with that of a refused command."""
    copy = folder / CHECKPOINTS / COMPOSITION
    has_checksums = (copy / CHECKSUMS).is_file()  # copies of old runs have none
    if has_checksums and (damage := find_damage(copy)):
        fix = "the command that trained the run writes them again"
        log.warning("%s: %s, so %s keeps the settings of this command. Fix: %s", copy, damage, COMPOSITION, fix)
    elif copy.is_dir():
        shutil.copytree(copy, folder / COMPOSITION, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CHECKSUMS))
