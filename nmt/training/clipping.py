"""Clip gradients, of which some may be sparse: the gradient of an embedding may hold only the rows in use."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def clip_norm(parameters: Iterable[nn.Parameter], longest: float | None) -> Tensor:
    """Clip the common norm of all gradients in place; return the norm before.

    torch.nn.utils.clip_grad_norm_ does the same but refuses sparse gradients.
    """
    gradients = _gradient_values(parameters)
    norm = nn.utils.get_total_norm(gradients)
    if longest:
        torch._foreach_mul_(gradients, torch.clamp(longest / (norm + 1e-6), max=1.0))
    return norm


def clip_values(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Clip each element of the gradients in place, to −most … most."""
    for gradient in _gradient_values(parameters):
        gradient.clamp_(-most, most)


def _gradient_values(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the gradients; of a sparse one its rows, each once."""
    given = [parameter for parameter in parameters if parameter.grad is not None]
    for parameter in given:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
    return [one.grad.values() if one.grad.is_sparse else one.grad for one in given]
