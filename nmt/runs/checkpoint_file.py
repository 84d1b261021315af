"""Checkpoint files: find, read and write them."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nmt.errors import CheckpointError, UserError, first_line
from nmt.runs.folder import BEST, CHECKPOINTS, LAST, PREVIOUS, read_summary
from nmt.system.files import whole

if TYPE_CHECKING:
    pass  # and with it Lightning, which translating does not need


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Plain containers and tensors; refused where anything in it is not as it was written."""
    try:
        _check(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except IsADirectoryError:
        within = path / LAST if path.name == CHECKPOINTS else path / CHECKPOINTS / LAST
        raise CheckpointError(f"{path}: is a folder; name a checkpoint, such as {within}") from None
    except Exception as error:
        reason = first_line(error)
        others = sorted(other.name for other in path.parent.glob("*.ckpt") if other != path)
        hint = f"; beside it there is {', '.join(others)}" if others else ""
        raise CheckpointError(f"{path}: cannot be loaded as a checkpoint ({reason}){hint}") from error
    if not isinstance(stored, Mapping) or "nmt" not in stored:
        raise CheckpointError(f"{path}: a checkpoint, but not of a run of this project")
    return stored


def _check(path: Path) -> None:
    """A checkpoint is a zip archive, which has a checksum for each of its parts; torch does not look at them."""
    with zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{damaged} in it is damaged")


def save_checkpoint(stored: Mapping[str, Any], path: Path, before: Path | None = None) -> None:
    """Whole or not at all: written beside its place, out to the disk, and moved there; what was there to `before`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):  # by a process that was killed
        left.unlink(missing_ok=True)
    try:
        with whole(path) as draft:
            with draft.open("wb") as file:
                torch.save(stored, file)
                file.flush()
                os.fsync(file.fileno())
            if before is not None and path.exists():
                path.replace(before)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch's own error comes after the disk's
        if not isinstance(cause, OSError):
            raise
        raise UserError(
            f"{path}: cannot be written ({cause.strerror}); the same command goes on once it can"
        ) from error
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def locate(path: Path) -> tuple[Path, Path]:
    """A run's folder, and the checkpoint that is meant where only the folder is named."""
    if path.is_file():
        folder = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
        return folder, path
    if not path.is_dir():
        raise UserError(f"run={path}: no such folder or checkpoint")
    for name in (BEST, LAST, PREVIOUS):
        if (checkpoint := path / CHECKPOINTS / name).is_file():
            return path, checkpoint
    if read_summary(path).get("status") == "completed":
        raise UserError(
            f"run={path}: is completed, but its checkpoints are not there: put back without them, or removed"
        )
    raise UserError(
        f"run={path}: holds no checkpoints/best.ckpt or checkpoints/last.ckpt; did its training get that far?"
    )
