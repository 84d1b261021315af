"""The same command, given again: where its run was stopped, killed or failed, it goes on."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only

from nmt.errors import UserError
from nmt.run import CHECKPOINTS, LAST, PREVIOUS, leaves, load_checkpoint, read_summary

log = logging.getLogger(__name__)

LIMITS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time")  # a run may be gone on with for longer
OF_NO_WEIGHT = (  # what training comes to does not depend on them
    "ckpt_path", "resume", "repeats", "name", "sweep", "threads", "score_test", "score_unknown", "tabulated", "paper",
    "logger", "callbacks.last", "callbacks.progress", "callbacks.translations", "callbacks.throughput",
    "model.source_vocabulary_size", "model.target_vocabulary_size", "trainer.enable_progress_bar",
    "pretraining_folder", "init_from", "pretraining", "fresh",
)  # fmt: skip
NAMED = 4  # settings that a message names


class CompletedAlreadyError(Exception):
    """There is nothing to go on with."""

    def __init__(self, summary: Mapping[str, Any]):
        super().__init__()
        self.summary = summary


class Before(NamedTuple):
    """What is known of a run that is gone on with."""

    seconds: float = 0.0
    metrics: Mapping[str, float] = {}
    of_another: str | None = None  # the checkpoint of another run that this one went on with, now or when it began


def settle(config: DictConfig, folder: Path) -> Before:
    """Sets `ckpt_path` to what lies in the run's folder.

    `resume`: auto – goes on where the settings are the same, and refuses where they are not; true – goes on anyway;
    false – begins anew, and puts the checkpoints aside.
    """
    if config.resume not in ("auto", True, False):
        raise UserError(f"resume={config.resume}: choose auto, true or false")
    if config.ckpt_path:
        path = Path(config.ckpt_path)
        return _before(folder, path, load_checkpoint(path))
    if config.resume is False:
        _put_aside(folder / CHECKPOINTS)
    found = None if config.resume is False else last_whole(folder / CHECKPOINTS)
    if found is None:
        _copy_composition(folder, folder / CHECKPOINTS)
        return Before()
    path, stored = found
    changed = _changed(stored["nmt"]["config"], OmegaConf.to_container(config))
    others = [f"{key} {before} → {now}" for key, (before, now) in changed.items() if key not in LIMITS]
    if others and config.resume == "auto":
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        _copy_composition(folder / CHECKPOINTS, folder)
        raise UserError(
            f"{folder} holds a run with other settings ({', '.join(others[:NAMED])}{more}): name another folder, or "
            "say resume=false to begin anew there, resume=true to go on with it all the same"
        )
    if _completed(folder) and not changed:
        _copy_composition(folder / CHECKPOINTS, folder)
        raise CompletedAlreadyError(read_summary(folder))
    said = f", with {', '.join(others)}" if others else ""
    log.info("going on with %s, from step %d%s", path, stored["global_step"], said)
    config.ckpt_path = str(path)
    _copy_composition(folder, folder / CHECKPOINTS)
    return _before(folder, path, stored)


def _before(folder: Path, path: Path, stored: Mapping[str, Any]) -> Before:
    if "progress" not in stored:
        raise UserError(
            f"{path}: holds weights, but not where training stood (a mean of checkpoints, or of an older version): "
            f"init_from={path} starts from them"
        )
    own = path.absolute().is_relative_to(folder.absolute())
    return Before(
        **stored["progress"],
        of_another=read_summary(folder).get("went_on_with") if own else str(path.absolute()),
    )


def last_whole(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The last checkpoint that can be read, and what it holds; what cannot be read is named and put out of the way."""
    damaged = []
    for name in (LAST, PREVIOUS):
        path = folder / name
        if path.is_file():
            try:
                stored = load_checkpoint(path)
            except UserError as error:
                damaged.append(path)
                log.warning("%s; the one before it is used", error)
                continue
            for other in damaged:
                _rename(other, other.with_name(f"{other.name}.damaged"))
            return path, stored
    if damaged:
        raise UserError(
            f"{' and '.join(map(str, damaged))}: damaged, and there is no other checkpoint to go on from; "
            "resume=false begins the run anew"
        )
    return None


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    before, now = leaves(before), leaves(now)
    keys = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    return {key: (before.get(key), now.get(key)) for key in keys if not _is_within(key, OF_NO_WEIGHT)}


def _is_within(key: str, nodes: tuple[str, ...]) -> bool:
    return any(key == node or key.startswith(f"{node}.") for node in nodes)


def _completed(folder: Path) -> bool:
    return read_summary(folder).get("status") == "completed"


@rank_zero_only
def _copy_composition(source: Path, target: Path) -> None:
    """Hydra writes .hydra before anything is asked: checkpoints keep their own, which a refused command gets back."""
    if (source / ".hydra").is_dir():
        shutil.copytree(source / ".hydra", target / ".hydra", dirs_exist_ok=True)


@rank_zero_only
def _rename(path: Path, new: Path) -> None:
    path.replace(new)


@rank_zero_only
def _put_aside(checkpoints: Path) -> None:
    """checkpoints.1, checkpoints.2, …"""
    if checkpoints.is_dir():
        number = 1
        while (aside := checkpoints.with_name(f"{checkpoints.name}.{number}")).exists():
            number += 1
        checkpoints.rename(aside)
        log.info("begun anew; the checkpoints there were are now in %s", aside)
