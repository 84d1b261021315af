"""Temporal attention: energies relative to what a position was given before; Sankaran 2016 §3.

    b_1j = exp(e_1j);   b_ij = exp(e_ij) / Σ_{k<i} exp(e_kj);   α_ij = b_ij / Σ_j b_ij

All in logarithms, so that nothing overflows. `window: n` remembers the last n steps only (the paper's future work).
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
    """What an attention needs of a history: it sees the energies of every step and gives those to attend by.

    An energy of −inf marks a position that is never attended to, and must stay that. The state of the first step is ().
    """

    def __call__(self, energies: Energies, state: Tree) -> tuple[Energies, Tree]: ...


class Temporal(nn.Module):
    def __init__(self, *, window: int | None = None):
        super().__init__()
        if window is not None and window < 0:
            raise ConfigurationError(f"attention.history.window={window}: a number of steps, or null for all of them")
        self.window = window

    def forward(self, energies: Energies, state: tuple[Tensor, ...]) -> tuple[Energies, tuple[Tensor, ...]]:
        """The state: log Σ_{k<i} exp(e_kj), or the last n energies."""
        never = energies == -torch.inf
        known = energies.masked_fill(never, 0.0)  # −inf − (−inf) is no number
        relative = (known - self._memorised(state)).masked_fill(never, -torch.inf) if state else energies
        if self.window is None:
            return relative, (torch.logaddexp(state[0], known) if state else known,)
        return relative, (*state, known)[-self.window :] if self.window else ()

    def _memorised(self, state: tuple[Tensor, ...]) -> Energies:
        return state[0] if self.window is None else torch.stack(state).logsumexp(0)
