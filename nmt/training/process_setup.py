"""Set up the process of a run: environment, warnings, threads and seed, and then the precision of products."""

import os
import warnings

import pytorch_lightning
import torch
from omegaconf import DictConfig
from torch import nn

from nmt.errors import ConfigurationError
from nmt.system.matrix_products import PRECISIONS, resolve_precision, set_precision

MAX_THREADS = 1024  # with 2048, OpenMP ends in a segmentation fault
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
    if config.threads is not None and not (isinstance(config.threads, int) and 1 <= config.threads <= MAX_THREADS):
        limits = f"from 1 to {MAX_THREADS}, or null"
        raise ConfigurationError(f"threads={config.threads}: must be a number of threads {limits}")
    if config.matmul_precision not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={config.matmul_precision}: choose {', '.join(PRECISIONS)}")
    for key, seed in (("seed", config.seed), ("data.seed", config.data.seed)):
        if not (isinstance(seed, int) and 0 <= seed < SEEDS):
            raise ConfigurationError(f"{key}={seed}: must be a whole number from 0 to {SEEDS - 1}")
    os.environ.setdefault("WANDB_SILENT", "true")  # because summary.json says where its files are
    for message in NEEDLESS_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    if config.threads:
        torch.set_num_threads(config.threads)
        os.environ["OMP_NUM_THREADS"] = str(config.threads)  # or Lightning's launcher of ranks sets its own number
    pytorch_lightning.seed_everything(config.seed, workers=True, verbose=False)


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
