"""Averages of weights: the mean of several checkpoints, and the moving average a run may keep (callbacks=ema)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint
from nmt.training.lightning_internals import swap_averaged_weights


def average_checkpoints(paths: Sequence[Path], output: Path) -> None:
    """Write a checkpoint whose weights are the mean of several checkpoints of one run."""
    checkpoints = [load_checkpoint(path) for path in paths]
    *others, last = checkpoints
    for path, other in zip(paths, others, strict=False):
        if other["nmt"]["vocabularies"] != last["nmt"]["vocabularies"]:
            raise UserError(f"{path}: other vocabularies than {paths[-1]}. Fix: average checkpoints of one run")
        if _shapes(other["state_dict"]) != _shapes(last["state_dict"]):
            raise UserError(f"{path}: other parameters than {paths[-1]}. Fix: average checkpoints of one model")
    mean = _mean([checkpoint["state_dict"] for checkpoint in checkpoints])
    save_checkpoint({"nmt": last["nmt"], "state_dict": mean, "global_step": last["global_step"]}, output)


class MovingAverage(WeightAveraging):
    """Keep a moving average of the weights, with which validation and checkpoints work.

    Lightning's callback swaps the weights and their mean for a validation. A checkpoint saved within one would hold
    them the wrong way round, and at the end the weights would be lost before they are saved.
    """

    is_swapped = False

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Swap the mean in."""
        super().on_validation_epoch_start(trainer, pl_module)
        self.is_swapped = True

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Swap the weights back in."""
        super().on_validation_epoch_end(trainer, pl_module)
        self.is_swapped = False

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Store the mean as the model, and the weights beside it."""
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if self.is_swapped:
            swap_averaged_weights(checkpoint)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the weights, because the mean is in the checkpoints."""


def moving_average(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Tensor, *, decay: float) -> None:
    """Update a ← d a + (1 − d) θ in place; after n updates d = min(decay, (1 + n) / (10 + n)).

    With a constant d, the first validations would measure little but the initial weights.
    """
    n = int(count)
    d = min(decay, (1 + n) / (10 + n))
    for mean, value in zip(averaged, current, strict=True):
        mean.lerp_(value, 1 - d) if mean.is_floating_point() else mean.copy_(value)


def _mean(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average in float64; integers, which have no mean, come from the last state."""
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in states[-1].items()
    }


def _shapes(state: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}
