"""Train the stage that a run builds upon, or find a run that was trained in the same way.

Runs share a stage if its weights would be the same. What decides them is the settings, the data, the code of models
and training, and the stage before. A fingerprint of all these names the stage's folder.
"""

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra.utils
import torch
from hydra.core.hydra_config import HydraConfig
from lightning_fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
from omegaconf import DictConfig, OmegaConf

from nmt.config.schema import check_overrides
from nmt.data.datamodule import TranslationData
from nmt.errors import ConfigurationError, UserError, did_you_mean
from nmt.runs.code_fingerprint import code_version
from nmt.runs.folder import LOCK, has_checkpoint, read_summary
from nmt.runs.job import Job, config_dirs, stop
from nmt.runs.trained_model import with_vocabulary_sizes
from nmt.system.files import write_text
from nmt.system.locks import lock_file
from nmt.training.pretrained_vectors import identify_vectors

log = logging.getLogger(__name__)

DECISIVE = ("model", "optimizer", "schedule", "loss", "trainer", "validation", "seed", "matmul_precision")
DECISIVE += ("init_from", "fresh")
DECISIVE_DATA = ("batches", "max_length", "source_end", "seed", "candidates")
NOT_INHERITED = ("name", "repeats", "sweep", "table", "hparams_search", "paper", "pretraining", "fresh", "init_from")
NOT_INHERITED += ("ckpt_path", "resume", "score_test", "score_unknown")


def pretrained(pretraining: DictConfig, overrides: Sequence[str]) -> Path:
    """Return the folder of the completed stage that `pretraining` describes, after training it if need be."""
    inherited = stage_overrides(pretraining, overrides)
    folder = stage_folder(hydra.compose("config", overrides=inherited), inherited)
    stage = Job(inherited, folder, config_dirs=config_dirs(HydraConfig.get()))
    stage.folder.parent.mkdir(parents=True, exist_ok=True)
    message = f"pretraining: another process trains the stage {stage.folder}, or waits for it; waiting"
    with lock_file(Path(f"{stage.folder}.lock"), message=message):
        if stage.is_completed:
            if not has_checkpoint(stage.folder):
                raise UserError(
                    f"pretraining: {stage.folder} is completed, but has no checkpoints. Fix: remove the folder, and "
                    "the stage is trained again"
                )
            log.info("pretraining: %s is trained already", stage.folder)
            return stage.folder
        if (other := _offered_run(stage.folder)) is None:
            _check_one_process(stage)
            other = _wait_for_offered_run(stage.folder)
        if other is not None:
            log.info("pretraining: %s was trained with the same settings", other)
            return other
        log.info("pretraining: training %s", stage.folder)
        _train(stage)
    return stage.folder


def compose_stage(pretraining: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """Return the settings of the stage of a run with these overrides, after a check of `pretraining`."""
    inherited = stage_overrides(pretraining, overrides)
    try:
        check_overrides(inherited)
    except ConfigurationError as error:
        raise ConfigurationError(f"pretraining.overrides: {error}") from error
    _check_without(pretraining, _choices(overrides), _choices(inherited), _choices(()))
    return hydra.compose("config", overrides=inherited)


def stage_folder(config: DictConfig, overrides: Sequence[str], data: TranslationData | None = None) -> Path:
    """Return the folder where a run with these settings, and its data, lies if it is trained as a stage."""
    name = f"{config.name.replace('/', '.')}-{fingerprint(config, overrides, data)}"
    return Path(config.pretraining_folder).absolute() / name


def offer_as_stage(folder: Path, stage: Path) -> None:
    """Leave a note that the run in `folder`, once completed, serves as this stage, unless another serves already."""
    if folder.absolute() != stage and _offered_run(stage) is None:
        stage.parent.mkdir(parents=True, exist_ok=True)
        write_text(_note(stage), str(folder.absolute()))


def _note(stage: Path) -> Path:
    return stage.with_name(f"{stage.name}.elsewhere")


def _read_note(stage: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the folder of the run that was offered for this stage, and its summary, if it is still what it was."""
    try:
        folder = Path(_note(stage).read_text(encoding="utf-8"))
    except OSError:
        return None
    summary = read_summary(folder)
    is_same = summary.get("stage") == stage.name  # the run there may have been trained again, or for longer
    by_one_code = len(summary.get("code", ())) <= 1  # a fingerprint names the code of the run's end alone
    return (folder, summary) if is_same and by_one_code and not summary.get("went_on_with") else None


def _offered_run(stage: Path) -> Path | None:
    """Return the run that was offered for this stage, if it is completed."""
    match _read_note(stage):
        case folder, {"status": "completed"} if has_checkpoint(folder):
            return folder
    return None


def _wait_for_offered_run(stage: Path) -> Path | None:
    """Return the run that was offered for this stage, when its training has ended; None if it did not complete."""
    if (noted := _read_note(stage)) is None:
        return None
    message = f"pretraining: another process trains {noted[0]} with the same settings; waiting for it "
    message += "(pretraining_folder=OTHER would train the stage apart)"
    with lock_file(noted[0] / LOCK, message=message):  # free if that process was killed
        return _offered_run(stage)


def stage_overrides(pretraining: DictConfig, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the run's overrides that its stage inherits, and the stage's own."""
    experiment = [f"experiment={pretraining.experiment}"] if pretraining.get("experiment") else []
    dropped = {*NOT_INHERITED, *pretraining.get("without", ()), *(["experiment"] if experiment else [])}
    # by group: attention of attention=dot, ~attention/window and attention.score.bias=true
    inherited = [override for override in overrides if re.split(r"[=./@]", override.lstrip("+~"))[0] not in dropped]
    return (*experiment, *inherited, *pretraining.get("overrides", ()))


def _choices(overrides: Sequence[str]) -> Mapping[str, str]:
    """Return the choice of each group."""
    return hydra.compose("config", overrides=list(overrides), return_hydra_config=True).hydra.runtime.choices


def _check_without(
    pretraining: DictConfig, run: Mapping[str, str], stage: Mapping[str, str], default: Mapping[str, str]
) -> None:
    """Refuse `without` for a group that does not exist, or that an experiment chose: it would stay in the stage."""
    for group in pretraining.get("without", ()):
        if group not in {*run, *default} or "/" in group:
            groups = sorted(name for name in default if not re.search(r"[/@]", name))
            hint = did_you_mean(group, groups)
            raise ConfigurationError(f"pretraining.without: {group} is no group{hint}; there are {', '.join(groups)}")
        if stage.get(group) == run.get(group) != default.get(group):
            raise ConfigurationError(
                f"pretraining.without: {group}={run[group]} was not chosen on the command line, so the stage would "
                "have it too. Fix: name an experiment without it: pretraining.experiment=NAME"
            )


def fingerprint(config: DictConfig, overrides: Sequence[str], data: TranslationData | None = None) -> str:
    """Return a digest of everything that decides a run's weights; its data are prepared if they are not given."""
    config = with_vocabulary_sizes(config, 0, 0)  # follow from the data
    settings: dict[str, Any] = {key: config[key] for key in DECISIVE}
    settings["callbacks"] = OmegaConf.to_container(config.callbacks)  # unresolved, because they name the run's folder
    settings |= {f"data.{key}": config.data[key] for key in DECISIVE_DATA}
    data = data or hydra.utils.instantiate(config.data)
    settings |= {"data": data.prepare().training_identity, "links": data.links_identity()}
    settings["vectors"] = identify_vectors(config.vectors)
    settings |= {"code": code_version(config), "torch": torch.__version__}
    if config.pretraining is not None:
        earlier = stage_overrides(config.pretraining, overrides)
        settings["before"] = fingerprint(hydra.compose("config", overrides=earlier), earlier)
    text = json.dumps(settings, sort_keys=True, default=lambda node: OmegaConf.to_container(node, resolve=True))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _check_one_process(stage: Job) -> None:
    """Refuse several processes: one would train the stage and wait for the others, and these for the stage."""
    processes = next((kind().world_size() for kind in (SLURMEnvironment, TorchElasticEnvironment) if kind.detect()), 1)
    if processes > 1:
        raise UserError(
            f"pretraining: torchrun or srun started {processes} processes, which cannot train a stage first. "
            f"Fix: train it by {shlex.join(stage.command())}, then give this command again"
        )


def _train(stage: Job) -> None:
    process = stage.start()
    try:
        process.wait()
    finally:
        stop([process])
    if not stage.is_completed:
        raise UserError(f"pretraining failed: {stage.summary().get('error', f'exit status {process.returncode}')}")
