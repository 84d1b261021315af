"""Decide how a command continues the run that its folder holds: resume it, start again, or refuse."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from nmt.config.allowed_targets import check_references
from nmt.config.diff import LIMITS, find_changes
from nmt.errors import CheckpointError, UserError, list_first
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.code_fingerprint import code_version
from nmt.runs.folder import CHECKPOINTS, CONFIG, read_summary
from nmt.runs.training_folder import Loaded, find_last_checkpoint, refuse_foreign_files
from nmt.system.safe_files import UnreadableError, read_yaml
from nmt.system.slurm import is_requeued

log = logging.getLogger(__name__)

NAME_ANOTHER = "name another folder"
START_AGAIN = f"{NAME_ANOTHER}, or give resume=false to start again there"
CHOICES = f"{START_AGAIN}, or resume=true to resume nevertheless"
# of a resumed run's summary
KEPT_ENTRIES = ("started", "id", "initialized_from", "vectors", "code", "data", "matmul_precision", "stage")


class CompletedAlreadyError(Exception):
    """The run in the folder is completed, so there is nothing to train; it holds the run's summary."""

    def __init__(self, summary: Mapping[str, Any]):
        super().__init__()
        self.summary = summary


class EarlierTraining(NamedTuple):
    """The training that a run continues; a new run has the defaults."""

    checkpoint: str | None = None  # from which training resumes
    seconds: float = 0.0
    metrics: dict[str, float] = {}
    other_settings_from: str | None = None  # a checkpoint of another run or settings, from which it ever resumed
    summary: Mapping[str, Any] = {}  # the entries of summary.json that a resumed run keeps
    starts_again: bool = False  # and the run in the folder is put aside


def find_earlier_training(config: DictConfig, folder: Path) -> EarlierTraining:
    """Return what the command continues: ckpt_path, the run in the folder, or nothing. Renames a damaged checkpoint.

    resume=auto resumes where the settings are the same and refuses where they differ; true resumes anyway; false
    starts again.

    Raises:
        CompletedAlreadyError: the run is completed, and the settings are the same.
        UserError: the command does not fit the run.
    """
    check_references(OmegaConf.to_container(config))
    if config.resume != "auto" and not isinstance(config.resume, bool):
        raise UserError(f"resume={config.resume}: choose auto, true or false")
    refuse_foreign_files(folder)
    given = Path(config.ckpt_path) if config.ckpt_path else None
    if config.resume is False and not _is_requeued(folder):
        if given and _is_in(given, folder):
            raise UserError(f"ckpt_path={given}: resume=false would put it aside. Fix: {NAME_ANOTHER}")
        return _start(given, folder)._replace(starts_again=True)
    earlier = _resume(config, given, folder)
    if "code" in earlier.summary and code_version(config) not in earlier.summary["code"]:
        log.warning("the code of this run changed since it started; resume=false starts it again")
    return earlier


def _is_requeued(folder: Path) -> bool:
    """Return whether this command trained the run before SLURM requeued it."""
    return is_requeued(read_summary(folder).get("slurm_job"))


def _start(given: Path | None, folder: Path) -> EarlierTraining:
    """Return a new run, which may resume from a checkpoint of another."""
    return _continue_from(_load_given(given), folder) if given else EarlierTraining()


def _load_given(path: Path) -> Loaded:
    try:
        content = load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(f"ckpt_path={error}") from error
    if "progress" not in content:
        raise UserError(
            f"{path}: holds weights, but not the state of training, as a mean of checkpoints does. "
            f"Fix: init_from={path} starts from its weights"
        )
    return Loaded(path, content)


def _resume(config: DictConfig, given: Path | None, folder: Path) -> EarlierTraining:
    if given and _is_in(given, folder) and _is_requeued(folder):
        given = None  # because the command went on from there before
    if given and _is_in(given, folder):
        loaded = _load_given(given)
        return _continue_from(loaded, folder, _other_settings(config, folder, loaded.content["nmt"]["config"]))
    loaded = find_last_checkpoint(folder / CHECKPOINTS)
    if loaded is None:
        _refuse_lost_checkpoints(config, folder)
        return _start(given, folder)
    if given and read_summary(folder).get("went_on_with") != str(given.absolute()):
        raise UserError(f"{folder}: holds a run that did not resume from ckpt_path={given}. Fix: {START_AGAIN}")
    others = _check_settings(config, folder, loaded.content["nmt"]["config"])
    log.info("resuming from %s, from step %d%s", loaded.path, loaded.content["global_step"], _listed(others, ", with "))
    return _continue_from(loaded, folder, others)


def _continue_from(loaded: Loaded, folder: Path, others: Mapping[str, Any] | None = None) -> EarlierTraining:
    """Return the entries of a checkpoint and of the folder's summary; `others` are settings that differ."""
    path, content = loaded
    if not _is_in(path, folder):
        metrics = content["progress"]["metrics"]  # without its seconds, which are the other run's
        return EarlierTraining(str(path), metrics=metrics, other_settings_from=str(path.absolute()))
    summary = read_summary(folder)
    kept = {key: summary[key] for key in KEPT_ENTRIES if key in summary}
    other = summary.get("went_on_with") or (str(path) if others else None)
    return EarlierTraining(str(path), **content["progress"], other_settings_from=other, summary=kept)


def _refuse_lost_checkpoints(config: DictConfig, folder: Path) -> None:
    """Refuse a completed run without checkpoints: it was restored without them, or they were deleted."""
    composed = folder / CHECKPOINTS / CONFIG
    if read_summary(folder).get("status") == "completed" and composed.is_file():
        try:
            trained = read_yaml(composed)
        except UnreadableError as error:
            raise UserError(f"{folder / CHECKPOINTS}: {error}. Fix: {NAME_ANOTHER}, or give resume=false") from error
        _check_settings(config, folder, trained)
        raise UserError(
            f"{folder}: holds a completed run without its checkpoints, so it cannot be resumed. Fix: {START_AGAIN}"
        )


def _check_settings(config: DictConfig, folder: Path, trained: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings, other than limits, that changed since the run, which may be completed."""
    others, summary = _other_settings(config, folder, trained), read_summary(folder)
    if summary.get("status") != "completed":
        return others
    reached_limit = _reached_limit(config.trainer, summary)
    if others and reached_limit:  # or the folder would name settings that nothing there was trained with
        raise UserError(
            f"{folder}: is trained as long as trainer.max_epochs and trainer.max_steps allow. Fix: raise them to train "
            f"it further{_listed(others, ' with ')}, or train in another folder or with resume=false"
        )
    if not others and (reached_limit or not find_changes(trained, OmegaConf.to_container(config))):
        raise CompletedAlreadyError(summary)
    return others


def _other_settings(config: DictConfig, folder: Path, trained: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings, other than limits, that changed since; with resume=auto they are an error."""
    differences = find_changes(trained, OmegaConf.to_container(config))
    others = {key: values for key, values in differences.items() if key not in LIMITS}
    if others and config.resume == "auto":
        raise UserError(f"{folder}: holds a run with other settings ({_listed(others)}). Fix: {CHOICES}")
    return others


def check_other_data(resume: Any, folder: Path) -> None:
    """Refuse resume=auto for a run whose texts changed since it started; otherwise log a warning."""
    if resume == "auto":
        raise UserError(
            f"{folder}: holds a run on other data (texts of data.train or data.valid changed). Fix: {CHOICES}"
        )
    log.warning("the texts of data.train or data.valid are not those with which this run started")


def _reached_limit(trainer: DictConfig, summary: Mapping[str, Any]) -> bool:
    """Return whether the run was trained as long as the limits of the trainer allow now."""
    pairs = [(trainer.get(f"max_{counted}"), summary.get(counted)) for counted in ("epochs", "steps")]
    return any(limit not in (None, -1) and reached is not None and limit <= reached for limit, reached in pairs)


def _listed(settings: Mapping[str, tuple[Any, Any]], begin: str = "") -> str:
    texts = [f"{key} {before} → {now}" for key, (before, now) in settings.items()]
    return begin + list_first(texts) if texts else ""


def _is_in(path: Path, folder: Path) -> bool:
    places = (folder, folder / CHECKPOINTS)  # because the second may be a link to another disk
    return any(path.resolve().is_relative_to(place.resolve()) for place in places)
