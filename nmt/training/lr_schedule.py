"""Learning-rate schedules; Lightning steps them once an epoch."""

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from nmt.errors import ConfigurationError


def constant(optimizer: Optimizer, **_: Any) -> None:
    """Keep the learning rate, whatever schedule was chosen with these settings."""


def halving(optimizer: Optimizer, *, after: int | None = None) -> LambdaLR | None:
    """Halve the learning rate after every epoch, from epoch `after` on; None: keep it.

    Luong 2015 §4.1 begins after 5 epochs, with dropout after 8.
    """
    if after is None:
        return None
    if not isinstance(after, int) or after < 0:
        raise ConfigurationError(f"schedule.after={after}: must be a number of epochs, or null for never")
    return LambdaLR(optimizer, lambda epochs_done: 0.5 ** max(0, epochs_done - after + 1))
