"""Set up the process of a run: environment, warnings, threads and seed, and then the precision of products."""

import os
import warnings
from pathlib import Path

import pytorch_lightning
import torch
from omegaconf import DictConfig
from torch import nn

from nmt.errors import ConfigurationError
from nmt.system.files import check_writable
from nmt.system.matrix_products import PRECISIONS, resolve_precision, set_precision
from nmt.system.threads import check_threads, set_threads

WANDB_SETTINGS = {  # unless the environment has others
    "WANDB_SILENT": "true",  # because summary.json says where its files are
    "WANDB_INIT_TIMEOUT": "8",  # seconds until a run is logged offline
    "WANDB_FINISH_TIMEOUT": "600",  # seconds until a trained run no longer waits for its upload
    "WANDB_FINISH_TIMEOUT_RAISES": "true",
}
WANDB_DIRECTORIES = {"WANDB_DATA_DIR": "data", "WANDB_CACHE_DIR": "cache"}
SEEDS = 2**32  # NumPy takes no larger one
NEEDLESS_WARNINGS = (
    "The number of training batches",  # a short run is no mistake
    "It is recommended to use `self.log",  # every rank logs the same value
    "Checkpoint directory",  # a resumed run has one
    "Experiment logs directory",  # it is the run's folder
    "The `srun` command is available",  # it need not be used
    ".*LeafSpec.*",  # Lightning's own use of torch's pytrees
)


def set_up_process(config: DictConfig) -> None:
    """Apply seed and threads, after checking them and matmul_precision."""
    check_threads(config.threads)
    if config.matmul_precision not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={config.matmul_precision}: choose {', '.join(PRECISIONS)}")
    for key, seed in (("seed", config.seed), ("data.seed", config.data.seed)):
        if not (isinstance(seed, int) and 0 <= seed < SEEDS):
            raise ConfigurationError(f"{key}={seed}: must be a whole number from 0 to {SEEDS - 1}")
    for name, value in WANDB_SETTINGS.items():
        os.environ.setdefault(name, value)
    for message in NEEDLESS_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    set_threads(config.threads)
    pytorch_lightning.seed_everything(config.seed, workers=True, verbose=False)


def check_wandb_directories() -> None:
    """Check the directories of W&B that the environment names, because W&B first uses them in a validation."""
    for name in WANDB_DIRECTORIES:
        if folder := os.environ.get(name):
            check_writable(
                Path(folder), f"{name}={folder}", f". Fix: unset {name} to keep its files in the run's folder"
            )


def keep_wandb_directories_in(folder: Path) -> None:
    """Put the directories of W&B into the run's folder, unless the environment names them.

    By default they are in HOME, which cannot be written in a container started for another user.
    """
    for name, place in WANDB_DIRECTORIES.items():
        os.environ.setdefault(name, str((folder / "wandb" / place).absolute()))


def set_up_products(requested: str, earlier: str | None, model: nn.Module, device: torch.device) -> str:
    """Set the precision of float32 products, once the model is known, and return it.

    Args:
        requested: `matmul_precision`.
        earlier: The precision of the run that is resumed, which `auto` keeps.
        model: The model.
        device: The device of training.
    """
    precision = earlier if requested == "auto" and earlier else resolve_precision(requested, model, device)
    set_precision(precision)
    return precision
