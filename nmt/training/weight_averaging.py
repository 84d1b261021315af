"""The moving average of the weights that a run may keep (callbacks=ema)."""

from collections.abc import Sequence
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor

from nmt.training.lightning_internals import is_within_validation


class MovingAverage(WeightAveraging):
    """Keep a moving average of the weights, with which validation and checkpoints work.

    Lightning's callback swaps the weights and their mean for a validation. A checkpoint saved within one would hold
    them the wrong way round, and at the end the weights would be lost before they are saved.
    """

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Store the mean as the model, and the weights beside it."""
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if is_within_validation(trainer):  # where Lightning has swapped the two
            mean, weights = checkpoint["current_model_state"], checkpoint["state_dict"]
            checkpoint |= {"state_dict": mean, "current_model_state": weights}

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
