"""Set up the process of a run: warnings, threads and seed."""

import warnings

import pytorch_lightning
from omegaconf import DictConfig

from nmt.errors import ConfigurationError
from nmt.system.matrix_products import PRECISIONS
from nmt.system.threads import set_threads

SEEDS = 2**32  # NumPy takes no larger one
NEEDLESS_WARNINGS = (
    "The number of training batches",  # a short run is no mistake
    "It is recommended to use `self.log",  # every rank logs the same value
    "Checkpoint directory",  # a resumed run has one
    "The `srun` command is available",  # it need not be used
    ".*LeafSpec.*",  # Lightning's own use of torch's pytrees
)


def set_up_process(config: DictConfig) -> None:
    """Apply seed and threads, after checking them and matmul_precision."""
    set_threads(config.threads)
    if config.matmul_precision not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={config.matmul_precision}: choose {', '.join(PRECISIONS)}")
    for key, seed in (("seed", config.seed), ("data.seed", config.data.seed)):
        if not (isinstance(seed, int) and 0 <= seed < SEEDS):
            raise ConfigurationError(f"{key}={seed}: must be a whole number from 0 to {SEEDS - 1}")
    for message in NEEDLESS_WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    pytorch_lightning.seed_everything(config.seed, workers=True, verbose=False)
