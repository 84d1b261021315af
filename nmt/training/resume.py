"""The same command, given again: where its run was stopped, killed or failed, it goes on."""

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only

from nmt.config.allowed_targets import check_references
from nmt.config.diff import LIMITS, changed
from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.folder import (
    CHECKPOINTS,
    COMPOSITION,
    CONFIG,
    LAST,
    METRICS,
    PREVIOUS,
    SUMMARY,
    give_back_composition,
    read_summary,
)
from nmt.runs.provenance import code_version
from nmt.system.locks import alone

log = logging.getLogger(__name__)

ANOTHER = "name another folder"
WAYS_ON = f"{ANOTHER}, or say resume=false to begin anew there, resume=true to go on with it all the same"
NAMED = 4  # settings that a message names
LOCK, EARLIER = ".lock", "earlier"
STAYS = (COMPOSITION, LOCK, "train.log", "output.log")  # when a run is put aside: of the new one, or open


class CompletedAlreadyError(Exception):
    """There is nothing to go on with."""

    def __init__(self, summary: Mapping[str, Any]):
        super().__init__()
        self.summary = summary


class Before(NamedTuple):
    """What is known of a run that is gone on with."""

    seconds: float = 0.0
    metrics: Mapping[str, float] = {}
    of_another: str | None = None  # the checkpoint of other settings that this run went on with, now or when it began
    told: Mapping[str, Any] = {}  # by its summary: what only its beginning knew
    anew: bool = False  # it is to be put aside


class Found(NamedTuple):
    path: Path
    stored: dict[str, Any]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Two processes in one folder would take each other's checkpoints for their own."""
    if rank_zero_only.rank != 0:
        yield
        return
    held = f"{folder}: another process trains there; wait for it, or name another folder"
    with alone(folder / LOCK, held=held, waits=False):
        yield


def settle(config: DictConfig, folder: Path) -> Before:
    """Sets `ckpt_path` to what lies in the run's folder, if it holds one. Nothing there is touched.

    `resume`: auto – goes on where the settings are the same, and refuses where they are not; true – goes on anyway;
    false – begins anew, and puts aside what is there. Hydra writes .hydra before anything is asked: checkpoints keep
    a copy, which a refused command gives back.
    """
    try:
        check_references(OmegaConf.to_container(config))
        if config.resume not in ("auto", True, False):
            raise UserError(f"resume={config.resume}: choose auto, true or false")
        _must_not_be_anothers(folder)
        anew = config.resume is False and not _is_requeued()
        return _begun_anew(config, folder) if anew else _gone_on_with(config, folder)
    except (UserError, CompletedAlreadyError):
        give_back_composition(folder)
        raise


def must_not_hold(folder: Path, working: Path) -> None:
    """hydra.run.dir= says nothing, and would make a run's folder of where the user works."""
    if working.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"hydra.run.dir={folder}: is where you work, or above it; name a folder for the run alone")


def _must_not_be_anothers(folder: Path) -> None:
    """A run's files would take the place of those of some other program."""
    if _holds_a_run(folder):
        return
    for name in (SUMMARY, METRICS, CHECKPOINTS):
        if (folder / name).exists() and not _is_empty(folder / name):
            raise UserError(f"{folder / name}: not of a run of this project, and would be overwritten: {ANOTHER}")


def _holds_a_run(folder: Path) -> bool:
    marks = (LAST, PREVIOUS, COMPOSITION)
    return "status" in read_summary(folder) or any((folder / CHECKPOINTS / mark).exists() for mark in marks)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_requeued() -> bool:
    """By SLURM, which gives the same command again: what it began anew the first time is then gone on with."""
    return os.environ.get("SLURM_RESTART_COUNT", "0") != "0"


def _begun_anew(config: DictConfig, folder: Path) -> Before:
    if config.ckpt_path and _is_in(Path(config.ckpt_path), folder):
        raise UserError(f"resume=false would put ckpt_path={config.ckpt_path} aside: name another folder")
    return _begun(config, folder)._replace(anew=True)


def _gone_on_with(config: DictConfig, folder: Path) -> Before:
    given = Path(config.ckpt_path) if config.ckpt_path else None
    if given and _is_in(given, folder):
        found = Found(given, load_checkpoint(given))
        before = _before(folder, found)
        return _told_of_others(before, found, _other_settings(config, folder, found.stored["nmt"]["config"]))
    found = last_whole(folder / CHECKPOINTS)
    if found is None:
        _check_composition(config, folder)
        return _begun(config, folder)
    if given and read_summary(folder).get("went_on_with") != str(given.absolute()):
        raise UserError(
            f"{folder} holds a run that did not go on with ckpt_path={given}: name another folder, or say "
            "resume=false to begin anew there"
        )
    others = _checked(config, folder, found.stored["nmt"]["config"])
    log.info("going on with %s, from step %d%s", found.path, found.stored["global_step"], _as_text(others, ", with "))
    config.ckpt_path = str(found.path)
    return _told_of_others(_before(folder, found), found, others)


def _told_of_others(before: Before, found: Found, others: Mapping[str, Any]) -> Before:
    return before._replace(of_another=before.of_another or str(found.path)) if others else before


def _begun(config: DictConfig, folder: Path) -> Before:
    """By itself, or with the checkpoint of another run."""
    if not config.ckpt_path:
        return Before()
    path = Path(config.ckpt_path)
    return _before(folder, Found(path, load_checkpoint(path)))


def _check_composition(config: DictConfig, folder: Path) -> None:
    """Of a completed run that was put back without its checkpoints, or has lost them."""
    composed = folder / CHECKPOINTS / CONFIG
    if read_summary(folder).get("status") == "completed" and composed.is_file():
        _checked(config, folder, OmegaConf.to_container(OmegaConf.load(composed)))
        raise UserError(
            f"{folder} holds a completed run whose checkpoints are not there: it cannot be gone on with; name another "
            "folder, or say resume=false to begin anew there"
        )


def _checked(config: DictConfig, folder: Path, trained: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """`_other_settings` of a run that may be completed."""
    others = _other_settings(config, folder, trained)
    apart = changed(trained, OmegaConf.to_container(config))
    summary = read_summary(folder)
    if summary.get("status") != "completed":
        return others
    past = _is_past(config, summary)
    if others and past:  # or the folder would tell of settings that nothing there was trained with
        raise UserError(
            f"{folder} is trained as long as trainer.max_epochs and trainer.max_steps allow: raise them to train it "
            f"further{_as_text(others, ' with ')}; another folder, or resume=false, trains anew"
        )
    if not others and (past or not apart):
        raise CompletedAlreadyError(summary)
    return others


def _other_settings(config: DictConfig, folder: Path, trained: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Those, other than limits, that are not what they were; refused where nobody said that this is meant."""
    apart = changed(trained, OmegaConf.to_container(config))
    others = {key: values for key, values in apart.items() if key not in LIMITS}
    if others and config.resume == "auto":
        raise UserError(f"{folder} holds a run with other settings ({_as_text(others)}): {WAYS_ON}")
    return others


def on_other_data(config: DictConfig, folder: Path) -> str:
    """What a run goes on with whose texts have changed since; refused where nobody said that this is meant."""
    if config.resume == "auto":
        raise UserError(f"{folder} holds a run on other data (texts to train on or to validate by changed): {WAYS_ON}")
    log.warning("the texts to train on or to validate by are not those this run began with")
    return str(config.ckpt_path)


def _is_past(config: DictConfig, summary: Mapping[str, Any]) -> bool:
    """Whether the run has been trained as long as it may be now."""
    limits = (("max_epochs", "epochs"), ("max_steps", "steps"))
    pairs = [(config.trainer.get(limit), summary.get(reached)) for limit, reached in limits]
    return any(limit not in (None, -1) and reached is not None and limit <= reached for limit, reached in pairs)


def _as_text(settings: Mapping[str, tuple[Any, Any]], begin: str = "") -> str:
    said = [f"{key} {before} → {now}" for key, (before, now) in settings.items()]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return begin + ", ".join(said[:NAMED]) + more if said else ""


def _before(folder: Path, found: Found) -> Before:
    if "progress" not in found.stored:
        raise UserError(
            f"{found.path}: holds weights, but not where training stood (a mean of checkpoints, or of an older "
            f"version): init_from={found.path} starts from them"
        )
    if not _is_in(found.path, folder):
        return Before(**found.stored["progress"], of_another=str(found.path.absolute()))
    summary = read_summary(folder)
    told = {key: summary[key] for key in ("started", "id", "initialized_from", "code", "data") if key in summary}
    if "code" in told and code_version() not in told["code"]:
        log.warning("nmt/model or nmt/training is not what this run began with; resume=false begins it anew")
    return Before(**found.stored["progress"], of_another=summary.get("went_on_with"), told=told)


def _is_in(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def last_whole(folder: Path) -> Found | None:
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
            return Found(path, stored)
    if damaged:
        raise UserError(
            f"{' and '.join(map(str, damaged))}: damaged, and there is no other checkpoint to go on from; "
            "resume=false begins the run anew"
        )
    return None


@rank_zero_only
def keep_composition(folder: Path) -> None:
    if (folder / COMPOSITION).is_dir():
        shutil.copytree(folder / COMPOSITION, folder / CHECKPOINTS / COMPOSITION, dirs_exist_ok=True)


@rank_zero_only
def _rename(path: Path, new: Path) -> None:
    path.replace(new)


@rank_zero_only
def put_aside(folder: Path) -> None:
    """The whole run, as a run's folder of its own: earlier.1, earlier.2, …"""
    if not _holds_a_run(folder):
        return
    own = [path for path in folder.iterdir() if path.name not in STAYS and not _is_of_another(path)]
    number = 1
    while (aside := folder / f"{EARLIER}.{number}").exists():
        number += 1
    aside.mkdir()
    for path in own:
        path.rename(aside / path.name)
    give_back_composition(aside)
    log.info("begun anew; the run that was there is now %s", aside)


def _is_of_another(path: Path) -> bool:
    """A run that was put aside, or that lies below."""
    return path.stem == EARLIER or (path.is_dir() and any(path.rglob(SUMMARY)))
