"""The mean of several checkpoints' weights, as a checkpoint of its own:

python -m nmt.training.weight_averaging RUN/checkpoints/a.ckpt RUN/checkpoints/b.ckpt output=RUN/checkpoints/mean.ckpt

And the moving average that a run may keep of its weights (callbacks=ema).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint


def averaged(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Means in float64; what is no floating-point number is taken from the last."""
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in states[-1].items()
    }


def average(paths: Sequence[Path], output: Path) -> None:
    stored = [load_checkpoint(path) for path in paths]
    *others, last = stored
    for path, other in zip(paths, others, strict=False):
        if other["nmt"]["vocabularies"] != last["nmt"]["vocabularies"]:
            raise UserError(f"{path}: other vocabularies than {paths[-1]}; only checkpoints of one run can be averaged")
        if _shapes(other) != _shapes(last):
            raise UserError(
                f"{path}: other parameters than {paths[-1]}; only checkpoints of like models can be averaged"
            )
    weights = averaged([one["state_dict"] for one in stored])
    whole = {"nmt": last["nmt"], "state_dict": weights, "global_step": last["global_step"]}
    save_checkpoint(whole, output)


class MovingAverage(WeightAveraging):
    """Lightning's, which exchanges the weights and their mean for a validation, but knows nothing of it where a
    checkpoint is saved in the middle of one; and when training ends it would lose the weights before they are saved."""

    exchanged = False

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_epoch_start(trainer, pl_module)
        self.exchanged = True

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_epoch_end(trainer, pl_module)
        self.exchanged = False

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if self.exchanged:
            mean, weights = "state_dict", "current_model_state"
            checkpoint[mean], checkpoint[weights] = checkpoint[weights], checkpoint[mean]

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The mean is in the checkpoints."""


def moving_average(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Tensor, *, decay: float) -> None:
    """a ← d a + (1 − d) θ, d = min(decay, (1 + n) / (10 + n)) after n averages, in place. With the same d from the
    start, validation would for many hundred steps be of the weights before training."""
    n = int(count)
    d = min(decay, (1 + n) / (10 + n))
    for mean, value in zip(averaged, current, strict=True):
        mean.lerp_(value, 1 - d) if mean.is_floating_point() else mean.copy_(value)


def _shapes(stored: dict) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in stored["state_dict"].items()}
