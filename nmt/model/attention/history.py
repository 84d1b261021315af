"""Temporal attention: exp of an energy is divided by the sum of its past values at this position; Sankaran 2016 §3.

    b_1j = exp(e_1j);   b_ij = exp(e_ij) / Σ_{k<i} exp(e_kj);   α_ij = b_ij / Σ_j b_ij

Computed in logarithms, because the exponentials can overflow.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.tree import Tree

Energies = Float[Tensor, "hypothesis source"]


@runtime_checkable
class History(Protocol):
    """The interface of a history: a function of the energies of a step and of the past."""

    def __call__(self, energies: Energies, state: Tree) -> tuple[Energies, Tree, dict[str, Tensor]]:
        """Return the new energies, the new state and a trace; the first state is (), and −inf must stay −inf."""


class Temporal(nn.Module):
    """log b_ij in place of e_ij; Sankaran 2016 §3.

    Args:
        window: n, to use only the last n steps (future work in the paper); None for all steps.
    """

    def __init__(self, *, window: int | None = None):
        super().__init__()
        if window is not None and window < 0:
            raise ConfigurationError(f"attention.history.window={window}: must be at least 0, or null for all steps")
        self.window = window

    def forward(
        self, energies: Energies, state: tuple[Tensor, ...]
    ) -> tuple[Energies, tuple[Tensor, ...], dict[str, Tensor]]:
        """Return log b_ij, the new state and a trace.

        The state is log Σ_{k≤i} exp(e_kj), or the last n energies. The trace has the share of each position in the past
        attention that divides the next step.
        """
        excluded = energies == -torch.inf
        finite = energies.masked_fill(excluded, 0.0)  # because −inf − (−inf) is NaN
        relative = (finite - self._past(state)).masked_fill(excluded, -torch.inf) if state else energies
        if self.window is None:
            new_state = (torch.logaddexp(state[0], finite) if state else finite,)
        else:
            new_state = (*state, finite)[-self.window :] if self.window else ()
        if not new_state:
            return relative, (), {}
        past = self._past(new_state).detach().masked_fill(excluded, -torch.inf)
        return relative, new_state, {"past_attention": past.softmax(1)}

    def _past(self, state: tuple[Tensor, ...]) -> Energies:
        """Return the logarithm of the sum of the past exp(e_kj)."""
        return state[0] if self.window is None else torch.stack(state).logsumexp(0)
