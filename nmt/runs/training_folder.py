"""The folder in which a run trains: its lock, the run that it already holds, and how that is put aside."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pytorch_lightning.utilities import rank_zero_only

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.folder import (
    CHECKPOINTS,
    COMPOSITION,
    LAST,
    LOCK,
    METRICS,
    PREVIOUS,
    SUMMARY,
    read_summary,
    restore_composition,
)
from nmt.runs.job import IS_JOB
from nmt.system.checksums import write_checksums
from nmt.system.files import atomic_folder
from nmt.system.locks import HeldLock, lock_file

log = logging.getLogger(__name__)

EARLIER = "earlier"
BEGUN = f"{EARLIER}.begun"  # a run that is being put aside
# not moved when a run is put aside, because the new run wrote them or has them open
STAYS = (COMPOSITION, LOCK, "train.log", "output.log")


class Loaded(NamedTuple):
    """A checkpoint file and its content."""

    path: Path
    content: dict[str, Any]


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[HeldLock | None]:
    """Let one process at a time train in a folder, because two would resume from each other's checkpoints.

    The first rank holds the lock for all.
    """
    if rank_zero_only.rank != 0:
        yield None
        return
    waits = IS_JOB in os.environ  # because a killed sweep or run leaves its job behind, which trains on
    message = f"{folder}: another process trains there"
    message += "; waiting for it" if waits else ". Fix: wait for it, or name another folder"
    with lock_file(folder / LOCK, message=message, waits=waits) as lock:
        yield lock


def refuse_working_directory(folder: Path, working_directory: Path) -> None:
    """Refuse an empty or wrong hydra.run.dir, which would make the user's own folder a run's."""
    if working_directory.resolve().is_relative_to(folder.resolve()):
        raise UserError(
            f"hydra.run.dir={folder}: is your working directory, or above it. Fix: name a folder for the run alone"
        )


@rank_zero_only
def refuse_foreign_files(folder: Path) -> None:
    """Refuse a folder with files that a run would overwrite, and that are of no run of this project.

    Another rank would take half-written files of the first rank for them.
    """
    if holds_a_run(folder):
        return
    for path in (folder / name for name in (SUMMARY, METRICS, CHECKPOINTS)):
        is_empty = path.is_dir() and not any(path.iterdir())
        if path.exists() and not is_empty:
            raise UserError(
                f"{path}: is not of a run of this project, and would be overwritten. Fix: name another folder"
            )


def holds_a_run(folder: Path) -> bool:
    """Return whether a folder holds a run of this project."""
    marks = (LAST, PREVIOUS, COMPOSITION)
    return "status" in read_summary(folder) or any((folder / CHECKPOINTS / mark).exists() for mark in marks)


def find_last_checkpoint(checkpoints: Path) -> Loaded | None:
    """Return last.ckpt, or previous.ckpt if that is missing or damaged; a damaged file is renamed to NAME.damaged."""
    damaged = []
    for path in filter(Path.is_file, (checkpoints / LAST, checkpoints / PREVIOUS)):
        try:
            content = load_checkpoint(path)
        except UserError as error:
            damaged.append(path)
            log.warning("%s; trying the checkpoint before it", error)
            continue
        for other in damaged:
            _rename(other, other.with_name(f"{other.name}.damaged"))
        return Loaded(path, content)
    if damaged:
        raise UserError(
            f"{' and '.join(map(str, damaged))}: damaged, and there is no other checkpoint to resume from. "
            "Fix: resume=false starts the run again"
        )
    return None


@rank_zero_only
def _rename(path: Path, new: Path) -> None:
    path.replace(new)


@rank_zero_only
def put_aside(folder: Path) -> None:
    """Move the run in a folder into earlier.1, earlier.2, … below it, where it can be opened as before."""
    if holds_a_run(folder):
        (folder / BEGUN).mkdir()
        finish_putting_aside(folder)


@rank_zero_only
def finish_putting_aside(folder: Path) -> None:
    """Move what a killed command left of a run that it put aside, so that no run lies in two places."""
    begun = folder / BEGUN
    if not begun.is_dir():
        return
    paths = [path for path in folder.iterdir() if path.name not in STAYS and not _is_another_run(path)]
    for path in paths:
        path.rename(begun / path.name)
    restore_composition(begun)
    number = 1
    while (aside := folder / f"{EARLIER}.{number}").exists():
        number += 1
    begun.rename(aside)
    log.info("started again; the earlier run is now in %s", aside)


def _is_another_run(path: Path) -> bool:
    """Return whether a path in a run's folder is a run that was put aside, or one that lies below it."""
    return path.stem == EARLIER or (path.is_dir() and any(path.rglob(SUMMARY)))


@rank_zero_only
def keep_composition(folder: Path) -> None:
    """Copy .hydra beside the checkpoints, because a refused command overwrites it."""
    if (folder / COMPOSITION).is_dir():
        copy = folder / CHECKPOINTS / COMPOSITION
        with atomic_folder(copy) as draft:  # because a copy without checksums would count as complete
            shutil.copytree(folder / COMPOSITION, draft, dirs_exist_ok=True)
            write_checksums(draft)
            shutil.rmtree(copy, ignore_errors=True)
