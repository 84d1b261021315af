"""The stage a run builds upon: trained first, or found where the same stage was trained before.

Two runs share a stage where everything that decides its weights is the same: its settings, the content of its data, the
model's code, and the stage before it. That makes its fingerprint, and the fingerprint its folder.
"""

import copy
import hashlib
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
import hydra.utils
import torch
from lightning_fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
from omegaconf import DictConfig, OmegaConf

from nmt.config.schema import check_kinds
from nmt.errors import ConfigurationError, UserError, closest
from nmt.runs.folder import has_checkpoint, read_summary
from nmt.runs.job import Job, stop
from nmt.runs.provenance import code_version
from nmt.system.files import write_text
from nmt.system.locks import alone

log = logging.getLogger(__name__)

DECISIVE = ("model", "optimizer", "schedule", "loss", "trainer", "validation", "seed", "matmul_precision")
DECISIVE += ("init_from", "fresh")
OWN = ("name", "repeats", "sweep", "table", "hparams_search", "paper", "pretraining", "fresh", "init_from")
OWN += ("ckpt_path", "resume", "score_test", "score_unknown")


def pretrained(config: DictConfig, overrides: Sequence[str]) -> Path:
    """The folder of the completed run that `config.pretraining` asks for; `overrides` are those of this run."""
    before = stage_overrides(config.pretraining, overrides)
    _check_kinds(before)
    _check_without(config.pretraining, _choices(overrides), _choices(before), _choices(()))
    stage = hydra.compose("config", overrides=before)
    job = Job(before, place_of(stage, before))
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    held = f"pretraining: another process is at {job.folder}; waiting for it"
    with alone(Path(f"{job.folder}.lock"), held=held):
        if job.is_completed:
            if not has_checkpoint(job.folder):
                raise UserError(
                    f"pretraining: {job.folder} is completed, but its checkpoints are not there; remove the folder, "
                    "and the stage is trained anew"
                )
            log.info("pretraining: %s is trained already", job.folder)
            return job.folder
        if (same := _same_elsewhere(job.folder)) is not None:
            log.info("pretraining: %s was trained with the same settings", same)
            return same
        _must_be_one_process(job)
        log.info("pretraining: training %s", job.folder)
        _run(job)
    return job.folder


def _check_kinds(overrides: Sequence[str]) -> None:
    """This run's own were looked at before."""
    try:
        check_kinds(overrides)
    except ConfigurationError as error:
        raise ConfigurationError(f"pretraining.overrides: {error}") from error


def place_of(config: DictConfig, overrides: Sequence[str]) -> Path:
    """Where a run with these settings lies if it is trained as a stage."""
    name = f"{config.name.replace('/', '.')}-{fingerprint(config, overrides)}"
    return Path(config.pretraining_folder).absolute() / name


def offer(folder: Path, place: Path, of_another: str | None) -> None:
    """A completed run may be the stage that another one asks for, unless it went on with the checkpoint of a run that
    its settings do not tell of."""
    if folder.absolute() != place and not of_another:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(_note(place), str(folder.absolute()))


def _note(place: Path) -> Path:
    """Says where a run with that fingerprint lies that was no pretraining when it was trained."""
    return place.with_name(f"{place.name}.elsewhere")


def _same_elsewhere(place: Path) -> Path | None:
    try:
        folder = Path(_note(place).read_text(encoding="utf-8"))
    except OSError:
        return None
    summary = read_summary(folder)  # the run there may have been trained anew, or for longer
    by_one_code = len(summary.get("code", ())) == 1  # or what trained it first is not what its fingerprint tells
    known = (summary.get("status"), summary.get("stage")) == ("completed", place.name)
    return folder if known and by_one_code and has_checkpoint(folder) else None


def stage_overrides(pretraining: DictConfig, overrides: Sequence[str]) -> tuple[str, ...]:
    """This run's settings but for what is the run's own, and for groups the stage is to be without."""
    experiment = [f"experiment={pretraining.experiment}"] if pretraining.get("experiment") else []
    dropped = {*OWN, *pretraining.get("without", ()), *(["experiment"] if experiment else [])}
    kept = [override for override in overrides if _group(override) not in dropped]
    return (*experiment, *kept, *pretraining.get("overrides", ()))


def _choices(overrides: Sequence[str]) -> Mapping[str, str]:
    """What is chosen of each group."""
    return hydra.compose("config", overrides=list(overrides), return_hydra_config=True).hydra.runtime.choices


def _check_without(
    pretraining: DictConfig, own: Mapping[str, str], stage: Mapping[str, str], default: Mapping[str, str]
) -> None:
    """Only what the command line chose can be left out of it."""
    for group in pretraining.get("without", ()):
        if group not in {*own, *default} or "/" in group:
            groups = sorted(name for name in default if not re.search(r"[/@]", name))
            hint = closest(group, groups)
            raise ConfigurationError(f"pretraining.without: {group} is no group{hint}; there are {', '.join(groups)}")
        if stage.get(group) == own.get(group) != default.get(group):
            raise ConfigurationError(
                f"pretraining.without: {group}={own[group]} was not chosen on the command line: the stage would have "
                "it too; name one without it: pretraining.experiment=NAME"
            )


def _group(override: str) -> str:
    """`attention` of attention=dot, ~attention/window and attention.score.bias=true."""
    return re.split(r"[=./@]", override.lstrip("+~"))[0]


def fingerprint(stage: DictConfig, overrides: Sequence[str]) -> str:
    """Of everything that decides a stage's weights."""
    stage = copy.deepcopy(stage)
    stage.model.source_vocabulary_size = stage.model.target_vocabulary_size = 0  # the data's, which may not be known
    settings: dict[str, Any] = {key: _plain(stage[key]) for key in DECISIVE}
    settings["callbacks"] = OmegaConf.to_container(stage.callbacks)  # unresolved: they name the run's folder
    of_data = ("batches", "max_length", "source_end", "seed", "candidates")
    settings |= {f"data.{key}": _plain(stage.data[key]) for key in of_data}
    settings["data"] = hydra.utils.instantiate(stage.data).prepare().decisive
    settings |= {"code": code_version(), "torch": torch.__version__}
    if stage.pretraining is not None:
        earlier = stage_overrides(stage.pretraining, overrides)
        settings["before"] = fingerprint(hydra.compose("config", overrides=earlier), earlier)
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _plain(node: Any) -> Any:
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _must_be_one_process(job: Job) -> None:
    """Of several, one would train the stage and wait for the others to join in, and these for the stage."""
    started = next((kind().world_size() for kind in (SLURMEnvironment, TorchElasticEnvironment) if kind.detect()), 1)
    if started > 1:
        raise UserError(
            f"pretraining: torchrun or srun started {started} processes, which cannot train a stage first; train it "
            f"by {shlex.join(job.command())}, then give this command again"
        )


def _run(job: Job) -> None:
    process = job.start()
    try:
        process.wait()
    finally:
        stop([process])
    if not job.is_completed:
        raise UserError(f"pretraining failed: {job.summary().get('error', f'exit status {process.returncode}')}")
