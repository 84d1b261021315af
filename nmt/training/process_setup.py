"""Set up the process of a run: environment, warnings, precision, threads and seed, in this one place."""

import os
import warnings

import pytorch_lightning
import torch
from omegaconf import DictConfig

from nmt.errors import ConfigurationError

PRECISIONS = ("highest", "high", "medium")
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
    """Apply seed, threads and matmul_precision, after checking them."""
    if config.threads is not None and not (isinstance(config.threads, int) and config.threads > 0):
        raise ConfigurationError(f"threads={config.threads}: must be a number of threads, at least 1, or null")
    if config.matmul_precision not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={config.matmul_precision}: choose {', '.join(PRECISIONS)}")
    if not (isinstance(config.seed, int) and 0 <= config.seed < SEEDS):
        raise ConfigurationError(f"seed={config.seed}: must be a whole number from 0 to {SEEDS - 1}")
    os.environ.setdefault("WANDB_SILENT", "true")  # because summary.json says where its files are
    for message in NEEDLESS_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    torch.set_float32_matmul_precision(config.matmul_precision)
    torch.backends.cudnn.allow_tf32 = config.matmul_precision != "highest"  # cuDNN's RNNs ask only this
    if config.threads:
        torch.set_num_threads(config.threads)
        os.environ["OMP_NUM_THREADS"] = str(config.threads)  # or Lightning's launcher of ranks sets its own number
    pytorch_lightning.seed_everything(config.seed, workers=True, verbose=False)
