"""How energies become weights: α_i = weights(e_i).

Every choice gives weights of at least 0. They are exactly 0 at padding, whose energy is −inf, and outside a window,
whose energy is the lowest finite number.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

Energies = Float[Tensor, "hypothesis source"]
Alignment = Float[Tensor, "hypothesis source"]


@runtime_checkable
class Weights(Protocol):
    """The interface of weights."""

    normalizes: bool  # the weights sum to 1 for any energies

    def __call__(self, energies: Energies) -> Alignment:
        """Return α_i."""


class Softmax(nn.Module):
    """α_ij = exp(e_ij) / Σ_j exp(e_ij)."""

    normalizes = True

    def forward(self, energies: Energies) -> Alignment:
        """Return α_i."""
        return torch.softmax(energies, dim=1)


class Sparsemax(nn.Module):
    """α_ij = max(e_ij − τ, 0), where τ makes the sum 1: many weights are exactly 0; Martins and Astudillo 2016."""

    normalizes = True

    def forward(self, energies: Energies) -> Alignment:
        """Return α_i."""
        # because sums of bfloat16 are coarse
        energies = energies.to(torch.promote_types(energies.dtype, torch.float32))
        descending = energies.sort(dim=1, descending=True).values  # e_(1) ≥ e_(2) ≥ …
        sums = descending.cumsum(1)
        ranks = torch.arange(1, energies.shape[1] + 1, device=energies.device)
        # k: the largest rank with 1 + k e_(k) > Σ_{l≤k} e_(l); 1 if all energies in a window are −∞
        support = (1 + ranks * descending > sums).sum(1, keepdim=True).clamp(min=1)
        threshold = (sums.gather(1, support - 1) - 1) / support  # τ = (Σ_{l≤k} e_(l) − 1) / k
        return (energies - threshold).clamp(min=0)


class Exponential(nn.Module):
    """α_ij = exp(e_ij), for energies of at most 0: logarithms of weights, or 0 where a window gives the weights."""

    normalizes = False

    def forward(self, energies: Energies) -> Alignment:
        """Return α_i."""
        return torch.exp(energies)
