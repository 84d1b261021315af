"""Gradients, of which some may be sparse: those of embeddings hold only the rows in use."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def values(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """The gradients there are; of a sparse one its rows, each once."""
    found = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            found.append(parameter.grad._values())
        elif parameter.grad is not None:
            found.append(parameter.grad)
    return found


def clip_norm(parameters: Iterable[nn.Parameter], longest: float | None) -> Tensor:
    """As torch.nn.utils.clip_grad_norm_, which does not know sparse gradients: gives the norm before it is clipped."""
    gradients = values(parameters)
    norm = nn.utils.get_total_norm(gradients)
    if longest:
        torch._foreach_mul_(gradients, torch.clamp(longest / (norm + 1e-6), max=1.0))
    return norm


def clip_values(parameters: Iterable[nn.Parameter], most: float) -> None:
    """As torch.nn.utils.clip_grad_value_, which does not know sparse gradients."""
    for gradient in values(parameters):
        gradient.clamp_(-most, most)
