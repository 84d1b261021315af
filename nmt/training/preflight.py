"""What would else be found wrong only after the corpus is prepared, which may take hours, or not at all."""

import copy
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hydra.utils
import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pytorch_lightning import Trainer

from nmt.config.diff import leaves
from nmt.config.resolvers import starts_from_another
from nmt.errors import ConfigurationError, UserError, closest, first_line
from nmt.evaluation.bleu import counter
from nmt.runs.checkpoint_file import locate
from nmt.runs.folder import BEST
from nmt.runs.trained_model import build_model
from nmt.system.files import writable
from nmt.system.hardware import cores
from nmt.training.lightning_module import check_loss, check_monitor
from nmt.translate.unknown_words import check_unknown

PRECISIONS = ("highest", "high", "medium")
RANKS_A_CORE = 2
TRAINER_PRECISIONS = ("32-true", "bf16-mixed", "32", "bf16")  # Lightning's, with whole weights
OURS = {  # of Trainer's arguments, which train() gives
    "callbacks": "callbacks=… says which",
    "logger": "logger=… says which",
    "default_root_dir": "hydra.run.dir=FOLDER says where",
    "enable_progress_bar": "there is a bar where there is a terminal",
}
SEEDS = 2**32  # NumPy's


def check_settings(config: DictConfig) -> None:
    for group in ("callbacks", "logger"):
        _check_parts(group, config[group])
    check_loss(**config.loss)
    check_unknown(config.score_unknown)
    for name, callback in config.callbacks.items():
        if callback and "monitor" in callback:
            check_monitor(f"callbacks.{name}", *_watched_by(callback, name))
    _check_checkpoint(config.callbacks.get("checkpoint"))
    counter(**config.data.score)
    hydra.utils.instantiate(config.validation)
    if config.threads is not None and not (isinstance(config.threads, int) and config.threads > 0):
        raise ConfigurationError(f"threads={config.threads}: must be a number of threads, at least 1, or null")
    if config.matmul_precision not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={config.matmul_precision}: choose {', '.join(PRECISIONS)}")
    if not (isinstance(config.seed, int) and 0 <= config.seed < SEEDS):
        raise ConfigurationError(f"seed={config.seed}: must be a whole number from 0 to {SEEDS - 1}")
    _check_trainer(config)
    _check_optimizer(config)
    _check_start(config)
    _check_dropout(config)
    _check_model(config)
    _check_place(config)


def _check_parts(group: str, parts: DictConfig) -> None:
    """What has no _target_ would be handed on as it is, and fail in Lightning's hands."""
    for name, part in parts.items():
        if part is not None and "_target_" not in (part if isinstance(part, DictConfig) else ()):
            others = [str(other) for other in parts if other != name]
            raise ConfigurationError(
                f"{group}.{name}: has no _target_, the class to make{closest(str(name), others)}; {group} has "
                f"{', '.join(others)}"
            )


def _check_checkpoint(callback: DictConfig | None) -> None:
    """One file, of one name, is what every command takes for a run's best."""
    for key, wanted in (("save_top_k", 1), ("filename", BEST.removesuffix(".ckpt"))):
        if callback and callback.get(key, wanted) != wanted:
            raise ConfigurationError(
                f"callbacks.checkpoint.{key}={callback[key]}: must be {wanted}, for {BEST} is the run's best; more "
                "checkpoints are kept by another ModelCheckpoint beside it (docs/translation.md, means of checkpoints)"
            )


def _watched_by(callback: DictConfig, name: str) -> tuple[str, str]:
    try:
        return callback.monitor, callback.get("mode", "min")
    except OmegaConfBaseException:
        raise ConfigurationError(
            f"callbacks.{name}: watches what callbacks.checkpoint does, and that is null; callbacks.{name}=null too, "
            f"or callbacks.{name}.monitor=… callbacks.{name}.mode=…"
        ) from None


def _check_trainer(config: DictConfig) -> None:
    trainer, precision = config.trainer, str(config.trainer.precision)
    for name in OURS:
        if name in trainer:
            raise ConfigurationError(f"trainer.{name}: would have no effect, {OURS[name]}")
    if trainer.accelerator in ("gpu", "cuda") and not torch.accelerator.is_available():
        raise ConfigurationError(
            f"trainer.accelerator={trainer.accelerator}: torch {torch.__version__} finds no GPU here; "
            "trainer=cpu trains without"
        )
    if precision not in TRAINER_PRECISIONS:
        raise ConfigurationError(f"trainer.precision={precision}: choose {', '.join(TRAINER_PRECISIONS)}")
    if (trainer.gradient_clip_val or 0) < 0:
        raise ConfigurationError(f"trainer.gradient_clip_val={trainer.gradient_clip_val}: must be at least 0")


def _check_optimizer(config: DictConfig) -> None:
    """By making both, for a weight that nobody has."""
    with _named("optimizer", config.optimizer):
        optimizer = hydra.utils.instantiate(config.optimizer)([torch.nn.Parameter(torch.zeros(1))])
    with _named("schedule", config.schedule):
        hydra.utils.instantiate(config.schedule)(optimizer)


@contextmanager
def _named(section: str, settings: DictConfig) -> Iterator[None]:
    """What is refused knows the names of its arguments alone, or not even these."""
    try:
        yield
    except IndexError as error:
        lists = ", ".join(f"{section}.{key}={value}" for key, value in settings.items() if OmegaConf.is_list(value))
        raise ConfigurationError(f"{lists or section}: too few values ({first_line(error)})") from error
    except (TypeError, ValueError) as error:
        reason = first_line(error)
        if unknown := re.search(r"unexpected keyword argument '(\w+)'", reason):
            _, *known = inspect.signature(hydra.utils.get_object(settings._target_)).parameters
            reason = f"no such setting{closest(unknown[1], known)}; there are {', '.join(known)}"
            section = f"{section}.{unknown[1]}"
        raise ConfigurationError(f"{section}: {reason}") from error


def _check_start(config: DictConfig) -> None:
    if config.fresh and not starts_from_another(config):
        raise ConfigurationError(f"fresh={config.fresh}: all weights are, without init_from= or pretraining=")
    if config.ckpt_path or not config.init_from:
        return
    if config.pretraining is not None:
        raise ConfigurationError("init_from and pretraining both say what to start from: give one")
    try:
        locate(Path(str(config.init_from)))
    except UserError as error:
        raise UserError(f"init_from: {error}") from error


def _check_dropout(config: DictConfig) -> None:
    """Where it is written: a place that refers to the default of all would be named instead of that."""
    for key, rate in leaves(OmegaConf.to_container(config)).items():
        if key.endswith("dropout") and isinstance(rate, int | float) and not 0 <= rate <= 1:
            raise ConfigurationError(f"{key}={rate}: must be from 0 to 1")


def _check_model(config: DictConfig) -> None:
    for name, size in config.size.items():
        if isinstance(size, int) and size < 1:
            raise ConfigurationError(f"size.{name}={size}: must be at least 1")
    trial = copy.deepcopy(config)
    trial.model.source_vocabulary_size = trial.model.target_vocabulary_size = 100
    with torch.device("meta"):  # takes neither memory nor time, whatever the sizes
        build_model(trial)


def _check_place(config: DictConfig) -> None:
    """A completed run is noted there as a stage for others; one that goes on was asked when it began."""
    if not config.ckpt_path:
        writable(Path(config.pretraining_folder), f"pretraining_folder={config.pretraining_folder}")


def check_ranks(config: DictConfig, trainer: Trainer) -> None:
    ranks, here = trainer.world_size, trainer.num_devices
    environment = getattr(trainer.strategy, "cluster_environment", None)
    starts_them = environment is not None and not environment.creates_processes_externally
    if starts_them and trainer.strategy.root_device.type == "cpu" and here > RANKS_A_CORE * cores():
        raise ConfigurationError(
            f"trainer.devices={config.trainer.devices}: so many processes on {cores()} cores would stop the machine; "
            f"at most {RANKS_A_CORE} a core"
        )
    if ranks > 1 and trainer._val_check_time_interval is not None:
        raise ConfigurationError(
            f"trainer.val_check_interval={config.trainer.val_check_interval}: is time, and each of {ranks} ranks would "
            "go by a clock of its own; give batches, or a part of an epoch"
        )
    if ranks > 1 and config.model.get("sparse_gradients"):
        raise ConfigurationError(
            f"model.sparse_gradients=true (optimizer=sparse_adam) is for one rank, and here are {ranks}: neither "
            "NCCL nor DDP's gloo exchange such gradients; optimizer=adam does with candidate lists too"
        )
