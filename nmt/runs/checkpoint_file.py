"""Checkpoint files: what is in them, and how they are found, read and written.

A checkpoint of training is enough to resume from. It holds plain containers and tensors only:

- nmt: config (as composed, interpolations unresolved, with the vocabulary sizes) and vocabularies (JSON of source and
  target); state_dict (parameters as model.NAME); global_step. A mean of checkpoints has only these.
- loops, callbacks, optimizer_states, lr_schedulers: entries of Lightning, for resuming.
- guard (of NonfiniteGuard), random_state (of torch on the CPU), random_state_of_gpu (if there was one): by
  training/lightning_module.py.
- progress (seconds of training in all commands; the last metrics), ended (training had stopped early), validations
  (rows of validations in metrics.csv) and rows (those up to this step): by training/last_checkpoint.py.
"""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nmt.config.allowed_targets import check_size
from nmt.errors import CheckpointError, UserError, first_line, list_first
from nmt.runs.folder import BEST, CHECKPOINTS, LAST, PREVIOUS, SWEEP, WEIGHTS, read_summary
from nmt.runs.shared_model import MOST_BYTES, NEEDED, read_model
from nmt.system.files import atomic_write, suggest_path, sync, to_path
from nmt.system.hub import download, is_hub_name
from nmt.system.safe_files import check_regular

FIX = f"Fix: name a checkpoint of this project, such as RUN/{CHECKPOINTS}/{BEST}"


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; also the weights of a shared model, with its folder.

    Raises:
        CheckpointError: there is none, it is damaged, or it is not of this project.
    """
    if path.name == WEIGHTS:
        return _check_settings(read_model(path.parent), path)
    try:
        check_regular(path)
        _check_integrity(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint{suggest_path(path)}") from None
    except IsADirectoryError:
        file = path / LAST if path.name == CHECKPOINTS else path / CHECKPOINTS / LAST
        raise CheckpointError(f"{path}: is a folder. Fix: name a checkpoint, such as {file}") from None
    except Exception as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        if isinstance(error, pickle.UnpicklingError):
            reason = "it holds more than tensors and plain containers"
        others = sorted(other.name for other in path.parent.glob("*.ckpt") if other != path)
        hint = f"; beside it there is {', '.join(others)}" if others else f". {FIX}"
        raise CheckpointError(f"{path}: cannot be loaded as a checkpoint ({reason}){hint}") from error
    if not isinstance(content, Mapping) or "nmt" not in content:
        entries = list_first(list(map(str, content))) if isinstance(content, Mapping) else type(content).__name__
        raise CheckpointError(f"{path}: is a checkpoint of another program, which holds {entries}. {FIX}")
    return _check_settings(content, path)


def _check_settings(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content if its settings can be resolved in little memory."""
    settings = content["nmt"].get("config") if isinstance(content["nmt"], Mapping) else None
    try:
        check_size(settings, settings, {})
    except UserError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return content


def _check_integrity(path: Path) -> None:
    """Compare the checksums of the zip archive that a checkpoint is, because torch does not."""
    with zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{damaged} in it is damaged")


def save_checkpoint(content: Mapping[str, Any], path: Path, before: Path | None = None) -> None:
    """Write a checkpoint atomically, and out to the disk.

    Args:
        content: its entries, listed at the top of this file.
        path: its place.
        before: where the file that was there is moved.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for draft in path.parent.glob(f".{path.name}.*"):  # left by a killed process
        draft.unlink(missing_ok=True)
    try:
        with atomic_write(path) as draft:
            with draft.open("wb") as file:
                torch.save(content, file)
            sync(draft)
            if before is not None and path.exists():
                path.replace(before)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch wraps the error of a full disk
        if not isinstance(cause, OSError):
            raise
        raise UserError(
            f"{path}: cannot be written ({cause.strerror}). Fix: give the same command again once it can be"
        ) from error
    sync(path.parent)


def locate_checkpoint(path: Path) -> tuple[Path, Path]:
    """Return a run's folder and a checkpoint; for a folder its best, else its last, else shared weights.

    Args:
        path: a run's folder, a checkpoint, the folder of a shared model, or hf:OWNER/NAME.
    """
    if is_hub_name(str(path)):
        path = download(str(path), MOST_BYTES, NEEDED)
    path = to_path(path)
    if path.is_file():
        folder = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
        return folder, path
    if not path.is_dir():
        raise UserError(f"run={path}: no such folder or checkpoint{suggest_path(path)}")
    for name in (BEST, LAST, PREVIOUS):
        if (checkpoint := path / CHECKPOINTS / name).exists():
            return path, checkpoint
    if (path / WEIGHTS).exists():
        return path, path / WEIGHTS
    if read_summary(path).get("status") == "completed":
        raise UserError(
            f"run={path}: is completed, but has no checkpoints. Fix: restore them, or train it again by its command "
            "with resume=false"
        )
    if (path / SWEEP).is_file():
        raise UserError(f"run={path}: is a sweep, not a run. Fix: {path}/* names its runs")
    raise UserError(
        f"run={path}: holds no checkpoints/best.ckpt or checkpoints/last.ckpt. Fix: train it further, or name another"
    )
