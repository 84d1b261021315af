"""Windows: which source positions a step may attend to; Luong 2015 §3.2.

Positions j count from 1 in the original left-to-right order, also where the encoder reads reversed; J is the number of
source words, the end symbol left out. A window is cut at the sentence's ends.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.encoder import Encoded
from nmt.model.tree import Tree, for_each_hypothesis


class Sight(NamedTuple):
    """What a step sees."""

    inside: Bool[Tensor, "hypothesis source"]
    factor: Float[Tensor, "hypothesis source"]  # what weights inside are multiplied by, without renormalising
    position: Float[Tensor, " hypothesis"]  # p_i
    state: Tree


@runtime_checkable
class Window(Protocol):
    """What an attention needs of a window."""

    def bind(self, source: Encoded) -> tuple[Tree, Tree]: ...

    def look(self, query: Tensor, state: Tree, bound: Tree) -> Sight: ...


class Bound(NamedTuple):
    positions: Float[Tensor, "batch source"]  # 1, 2, …
    words: Float[Tensor, " batch"]  # J


class _Local(nn.Module):
    """[p − D, p + D]"""

    def __init__(self, *, half_width: int, source_end: bool):
        super().__init__()
        if half_width < 1:
            raise ConfigurationError(
                f"attention.window.half_width={half_width}: must be at least 1, or a window may hold no word"
            )
        self.half_width, self.source_end = half_width, source_end

    def bind(self, source: Encoded) -> tuple[Bound, Tree]:
        numbers = torch.arange(1, source.mask.shape[1] + 1, device=source.mask.device, dtype=torch.float32)
        return Bound(numbers.expand(source.mask.shape), source.mask.sum(1).float() - int(self.source_end)), ()

    def _inside(self, positions: Tensor, centre: Tensor) -> Bool[Tensor, "hypothesis source"]:
        return (positions - centre[:, None]).abs() <= self.half_width


class Monotonic(_Local):
    """local-m: p_i = min(i, J), so that no window is empty (nmt.matlab). The state is i."""

    def bind(self, source: Encoded) -> tuple[Bound, Tree]:
        bound, _ = super().bind(source)
        return bound, torch.zeros_like(bound.words)

    def look(self, query: Float[Tensor, "hypothesis query"], state: Tensor, bound: Bound) -> Sight:
        step = state + 1
        positions, words = for_each_hypothesis(bound, step.shape[0])
        position = torch.minimum(step, words)
        inside = self._inside(positions, position)
        return Sight(inside, inside.to(query.dtype), position, step)


class Predicted(_Local):
    """local-p: p_i = J · σ(v_p · tanh(W_p q)), and a Gaussian around it; σ = D / 2 (eq. 10–11).

    The window stands around floor(p_i); p_i learns through the Gaussian only.
    """

    def __init__(self, *, query_size: int, half_width: int, source_end: bool):
        super().__init__(half_width=half_width, source_end=source_end)
        self.query = nn.Linear(query_size, query_size, bias=False)  # W_p
        self.energy = nn.Parameter(torch.empty(query_size))  # v_p

    def look(self, query: Float[Tensor, "hypothesis query"], state: Tree, bound: Bound) -> Sight:
        positions, words = for_each_hypothesis(bound, query.shape[0])
        hidden = torch.tanh(self.query(query))
        energy = hidden @ self.energy.to(hidden.dtype)
        # In float32 at least: bfloat16 has no number for every position beyond 256
        position = words * torch.sigmoid(energy.to(torch.promote_types(energy.dtype, torch.float32)))
        inside = self._inside(positions, position.detach().floor())
        # exp(−(j − p_i)² / 2σ²)
        gaussian = torch.exp(-((positions - position[:, None]) ** 2) / (2 * (self.half_width / 2) ** 2))
        return Sight(inside, gaussian * inside, position, state)
