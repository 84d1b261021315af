"""Pre-flight checks, run before hours of data preparation."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra.utils
import torch
from hydra.errors import InstantiationException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pytorch_lightning import Trainer

from nmt.config.explain import explain_construction_error
from nmt.config.resolvers import starts_from_pretrained
from nmt.config.schema import check_rates
from nmt.data.aligner import check_aligner
from nmt.data.named_files import Place
from nmt.data.preprocessing import check_languages
from nmt.errors import ConfigurationError, UserError, did_you_mean
from nmt.evaluation.bleu import bleu_metric
from nmt.model.translator import Translator
from nmt.runs.checkpoint_file import load_checkpoint, locate_checkpoint
from nmt.runs.folder import BEST
from nmt.runs.trained_model import build_model, with_vocabulary_sizes
from nmt.system.files import check_writable
from nmt.system.hardware import available_cores, has_bfloat16_products
from nmt.system.hub import is_hub_name
from nmt.training.lightning_internals import validates_by_the_clock
from nmt.training.lightning_module import SCORES, TrainingModule
from nmt.training.nonfinite_guard import NonfiniteGuard
from nmt.training.pretrained_vectors import check_vectors
from nmt.training.pretraining import compose_stage
from nmt.training.transfer import check_fresh, check_names
from nmt.translate.unknown_words import check_unknown

log = logging.getLogger(__name__)

RANKS_PER_CORE = 2
STARTED_BY_HAND = {"NODE_RANK", "MASTER_ADDR"}  # the environment of a user who starts a process on each node
PRECISIONS = ("32-true", "bf16-mixed", "32", "bf16")  # Lightning's, with whole weights
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_false", "ddp_find_unused_parameters_true")  # of Lightning
SET_BY_TRAIN = {  # arguments of Trainer that train() gives
    "callbacks": "callbacks=… chooses them",
    "logger": "logger=… chooses it",
    "default_root_dir": "hydra.run.dir=FOLDER sets it",
    "enable_progress_bar": "there is a bar where there is a terminal",
}
ONE_BEST = (("save_top_k", 1), ("filename", BEST.removesuffix(".ckpt")))  # what every command takes for a run's best


def check_settings(config: DictConfig, overrides: Sequence[str], checkpoint: str | None) -> None:
    """Refuse settings that training would refuse later.

    A pretraining stage inherits the overrides. Training that resumes from a checkpoint needs no initial weights.
    """
    for group in ("callbacks", "logger"):
        _check_targets(group, config[group])
    if config.loss.normalize not in ("words", "sentences", "sum"):
        raise ConfigurationError(f"loss.normalize={config.loss.normalize}: choose words, sentences or sum")
    NonfiniteGuard(path="", **config.finite)  # which refuses wrong settings
    check_unknown(config.score_unknown, "score_unknown")
    _check_callbacks(config.callbacks)
    bleu_metric(**config.data.score)
    for section in ("search", "validation"):
        _check_search(section, config[section])
    _check_trainer(config.trainer, graphs=config.graphs)
    _check_optimizer(config.optimizer, config.schedule)
    _check_start(config, checkpoint)
    check_rates(OmegaConf.to_container(config))
    check_languages(config.data)
    if small := [f"size.{name}={size}" for name, size in config.size.items() if isinstance(size, int) and size < 1]:
        raise ConfigurationError(f"{small[0]}: must be at least 1")
    model = _build_trial(config)
    if checkpoint is None:
        check_vectors(config.vectors, config.init_from, config.model.embedding_size)
        check_fresh(config.fresh, model)
        if config.score_test and config.score_unknown == "translate":  # which would be refused after the training
            check_aligner()
        if config.pretraining is not None:  # because it would first be trained for hours
            stage = _build_trial(compose_stage(config.pretraining, overrides))
            check_names(stage.state_dict(), model.state_dict(), config.fresh, origin="pretraining")
        folder = Path(config.pretraining_folder)
        # because the run will leave a note there
        check_writable(folder, f"pretraining_folder={folder}", ". Fix: pretraining_folder=FOLDER")


def list_places(config: DictConfig) -> list[Place]:
    """Return the runs and files that the settings name, beside those of the data."""
    named = [config.init_from, config.ckpt_path, config.data.vocabulary.get("run"), *config.vectors.values()]
    return [text if is_hub_name(text) else Path(text) for text in map(str, filter(None, named))]


def _check_search(section: str, settings: DictConfig) -> None:
    try:
        hydra.utils.instantiate(settings)
    except InstantiationException as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise ConfigurationError(f"{section}.{error.__cause__}") from error
        raise


def _check_targets(group: str, parts: DictConfig) -> None:
    for name, part in parts.items():
        if part is not None and not _has_target(part):
            others = [str(other) for other in parts if other != name]
            raise ConfigurationError(
                f"{group}.{name}: has no _target_, the class to make{did_you_mean(str(name), others)}; {group} has "
                f"{', '.join(others)}"
            )


def _has_target(part: Any) -> bool:
    return isinstance(part, DictConfig) and isinstance(part.get("_target_"), str)


def _check_callbacks(callbacks: DictConfig) -> None:
    for name, callback in callbacks.items():
        if callback and "monitor" in callback:
            _check_monitor(f"callbacks.{name}", callback)
    checkpoint = callbacks.get("checkpoint")
    for key, value in ONE_BEST:
        if checkpoint and checkpoint.get(key, value) != value:
            raise ConfigurationError(
                f"callbacks.checkpoint.{key}={checkpoint[key]}: must be {value}, because {BEST} is the run's best. "
                "Fix: another ModelCheckpoint beside it keeps more checkpoints (docs/translation.md, means of "
                "checkpoints)"
            )


def _check_monitor(key: str, callback: DictConfig) -> None:
    try:
        monitor, mode = callback.monitor, callback.get("mode", "min")
    except OmegaConfBaseException:
        raise ConfigurationError(
            f"{key}: monitors what callbacks.checkpoint does, and that is null. "
            f"Fix: {key}=null too, or {key}.monitor=… {key}.mode=…"
        ) from None
    if monitor not in SCORES:
        raise ConfigurationError(
            f"{key}.monitor={monitor}: choose {', '.join(SCORES)}, or add what a callback of yours logs to SCORES "
            f"in {TrainingModule.__module__}"
        )
    if mode != (best := SCORES[monitor]):
        better = {"min": "lower", "max": "higher"}[best]
        raise ConfigurationError(f"{key}.mode={mode}: {better} {monitor} is better. Fix: {key}.mode={best}")


def _check_trainer(trainer: DictConfig, *, graphs: bool) -> None:
    precision, interval = str(trainer.precision), trainer.val_check_interval
    for name, setting in SET_BY_TRAIN.items():
        if name in trainer:
            raise ConfigurationError(f"trainer.{name}: would have no effect, {setting}")
    if trainer.accelerator in ("gpu", "cuda") and not torch.accelerator.is_available():
        raise ConfigurationError(
            f"trainer.accelerator={trainer.accelerator}: torch {torch.__version__} finds no GPU here. "
            "Fix: trainer=cpu trains without one"
        )
    if not (isinstance(trainer.plugins, ListConfig) and all(map(_has_target, trainer.plugins))):
        raise ConfigurationError(
            f"trainer.plugins={trainer.plugins}: must be a list, each with a _target_, the class to make. "
            "Fix: leave it out, or add to the list of conf/trainer/default.yaml"
        )
    if any("SLURM" in plugin._target_ for plugin in trainer.plugins) and "SLURM_NODEID" not in os.environ:
        raise ConfigurationError(
            "trainer=slurm: srun has not started this process. Fix: start it by srun in a job (docs/scaling.md); "
            "trainer=gpu trains without SLURM"
        )
    if graphs and (trainer.accelerator == "cpu" or not torch.cuda.is_available()):
        raise ConfigurationError(
            "graphs=true: needs an NVIDIA GPU. Fix: trainer=gpu where there is one, or graphs=false"
        )
    if precision not in PRECISIONS:
        raise ConfigurationError(f"trainer.precision={precision}: choose {', '.join(PRECISIONS)}")
    if isinstance(trainer.strategy, str) and trainer.strategy not in STRATEGIES:
        raise ConfigurationError(
            f"trainer.strategy={trainer.strategy}: its ranks cannot take over the run, or each stores a part of the "
            f"weights. Fix: choose {', '.join(STRATEGIES)}"
        )
    if isinstance(interval, int | float) and not (0 < interval <= 1 if isinstance(interval, float) else interval >= 1):
        raise ConfigurationError(
            f"trainer.val_check_interval={interval}: must be a number of batches, or a part of an epoch above 0 and at "
            "most 1.0. Fix: null validates once per epoch"
        )
    if ((batches := trainer.get("accumulate_grad_batches", 1)) or 0) < 1:
        raise ConfigurationError(f"trainer.accumulate_grad_batches={batches}: must be at least 1")
    if (trainer.gradient_clip_val or 0) < 0:
        raise ConfigurationError(f"trainer.gradient_clip_val={trainer.gradient_clip_val}: must be at least 0")


def _check_optimizer(settings: DictConfig, schedule: DictConfig) -> None:
    """Build the optimizer and its schedule for a dummy parameter."""
    with _name_section("optimizer", settings):
        optimizer = hydra.utils.instantiate(settings)([torch.nn.Parameter(torch.zeros(1))])
    with _name_section("schedule", schedule):
        hydra.utils.instantiate(schedule)(optimizer)


@contextmanager
def _name_section(section: str, settings: DictConfig) -> Iterator[None]:
    """Name the section of the settings in errors of torch, which name at most an argument."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        raise ConfigurationError(explain_construction_error(error, section, settings)) from error


def _check_start(config: DictConfig, checkpoint: str | None) -> None:
    if config.fresh and not starts_from_pretrained(config):
        raise ConfigurationError(
            f"fresh={config.fresh}: has no effect without init_from= or pretraining=. Fix: leave it out"
        )
    if checkpoint or not config.init_from:
        return
    if config.pretraining is not None:
        raise ConfigurationError(f"init_from={config.init_from}: pretraining= is given too. Fix: leave out one of them")
    try:
        load_checkpoint(locate_checkpoint(Path(str(config.init_from)))[1])
    except UserError as error:
        raise UserError("init_from=" + f"{error}".removeprefix("run=")) from error


def _build_trial(config: DictConfig) -> Translator:
    with torch.device("meta"):  # because there a model of any size takes neither memory nor time
        return build_model(with_vocabulary_sizes(config, 100, 100), config.user_dir)


def check_ranks(config: DictConfig, trainer: Trainer) -> None:
    """Refuse settings that do not work with this number of ranks."""
    ranks, here = trainer.world_size, trainer.num_devices
    environment = getattr(trainer.strategy, "cluster_environment", None)
    starts_ranks = environment is not None and not environment.creates_processes_externally
    if starts_ranks and trainer.num_nodes > 1 and not STARTED_BY_HAND & os.environ.keys():
        raise ConfigurationError(
            f"trainer.num_nodes={trainer.num_nodes}: nothing starts the processes of the other nodes. Fix: give this "
            "command to srun, or to torchrun on each node"
        )
    if ranks != trainer.num_nodes * here:
        raise ConfigurationError(
            f"trainer.num_nodes={trainer.num_nodes} trainer.devices={config.trainer.devices}: this is for "
            f"{trainer.num_nodes * here} processes, and here are {ranks}. Fix: set both to what torchrun starts; in a "
            f"job of SLURM take trainer=slurm, srun, and #SBATCH --ntasks-per-node={here}"
        )
    cores = available_cores()
    if starts_ranks and trainer.strategy.root_device.type == "cpu" and here > RANKS_PER_CORE * cores:
        raise ConfigurationError(
            f"trainer.devices={config.trainer.devices}: so many processes on {cores} cores would stop the machine; "
            f"at most {RANKS_PER_CORE} per core"
        )
    if trainer.strategy.root_device.type == "cpu" and "bf16" in str(trainer.precision) and not has_bfloat16_products():
        log.warning(
            "trainer.precision=%s: this processor has no bfloat16 products, so training is slower. "
            "Fix: trainer.precision=32-true",
            config.trainer.precision,
        )
    if ranks > 1 and validates_by_the_clock(trainer):
        raise ConfigurationError(
            f"trainer.val_check_interval={config.trainer.val_check_interval}: is a time, and each of {ranks} ranks has "
            "its own clock. Fix: give batches, or a part of an epoch"
        )
    if ranks > 1 and config.model.get("sparse_gradients"):
        raise ConfigurationError(
            f"model.sparse_gradients=true (optimizer=sparse_adam) is for one rank, and here are {ranks}: neither NCCL "
            "nor DDP's gloo exchange such gradients. Fix: optimizer=adam, which works with candidate lists too"
        )
