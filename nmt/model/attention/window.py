"""Windows: the source positions that a step may attend to; Luong 2015 §3.2, Graves 2013.

Positions j count from 1 in the original left-to-right order, also if the encoder reads the source reversed.
J is the number of source words without the end symbol. A window ends at the sentence's ends.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.encoder import EncodedSource
from nmt.model.tree import Tree, repeat_per_hypothesis


class WindowStep(NamedTuple):
    """The window of one step."""

    inside: Bool[Tensor, "hypothesis source"]
    factor: Float[Tensor, "hypothesis source"]  # multiplies the attention weights, which are not renormalised
    trace: dict[str, Tensor]  # values for plots and analyses, by name; `position` is p_i
    state: Tree


@runtime_checkable
class Window(Protocol):
    """The interface of a window."""

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return the values that are fixed for each sentence, and the first state."""

    def locate(self, query: Tensor, state: Tree, bound: Tree) -> WindowStep:
        """Return the window of this step."""


class SourcePositions(NamedTuple):
    """Positions and length of each sentence."""

    positions: Float[Tensor, "batch source"]  # 1, 2, …
    length: Float[Tensor, " batch"]  # J


class _LocalWindow(nn.Module):
    """[p_i − D, p_i + D].

    Args:
        half_width: D.
        source_end: the source has an end symbol, which J leaves out.
    """

    def __init__(self, *, half_width: int, source_end: bool):
        super().__init__()
        if half_width < 1:
            raise ConfigurationError(
                f"attention.window.half_width={half_width}: must be at least 1, because a smaller window may be empty"
            )
        self.half_width, self.source_end = half_width, source_end

    def bind(self, source: EncodedSource) -> tuple[SourcePositions, Tree]:
        """Return positions and lengths, and an empty state."""
        numbers = torch.arange(1, source.mask.shape[1] + 1, device=source.mask.device, dtype=torch.float32)
        length = source.mask.sum(1).float() - int(self.source_end)
        return SourcePositions(numbers.expand(source.mask.shape), length), ()

    def _inside(self, positions: Tensor, centre: Tensor) -> Bool[Tensor, "hypothesis source"]:
        return (positions - centre[:, None]).abs() <= self.half_width


class Monotonic(_LocalWindow):
    """local-m: p_i = min(i, J), so that no window is empty (nmt.matlab); Luong 2015 §3.2.

    The state is the number of steps.
    """

    def bind(self, source: EncodedSource) -> tuple[SourcePositions, Tree]:
        """Return positions and lengths, and i = 0."""
        bound, _ = super().bind(source)
        return bound, torch.zeros_like(bound.length)

    def locate(self, query: Float[Tensor, "hypothesis query"], state: Tensor, bound: SourcePositions) -> WindowStep:
        """Return the window around p_i = min(i, J)."""
        step = state + 1  # i
        positions, length = repeat_per_hypothesis(bound, step.shape[0])
        position = torch.minimum(step, length)
        inside = self._inside(positions, position)
        return WindowStep(inside, inside.to(query.dtype), {"position": position}, step)


class Predictive(_LocalWindow):
    """local-p: p_i = J · σ(v_p · tanh(W_p q)), and a Gaussian around it with σ = D / 2; Luong 2015 eq. 10–11.

    The window is centred on floor(p_i), so the gradient reaches p_i through the Gaussian only.
    """

    def __init__(self, *, query_size: int, half_width: int, source_end: bool):
        super().__init__(half_width=half_width, source_end=source_end)
        self.query = nn.Linear(query_size, query_size, bias=False)  # W_p
        self.energy = nn.Parameter(torch.empty(query_size))  # v_p

    def locate(self, query: Float[Tensor, "hypothesis query"], state: Tree, bound: SourcePositions) -> WindowStep:
        """Return the window around floor(p_i), with the Gaussian as its factor."""
        positions, length = repeat_per_hypothesis(bound, query.shape[0])
        hidden = torch.tanh(self.query(query))
        energy = hidden @ self.energy.to(hidden.dtype)
        # in float32 at least, because bfloat16 cannot represent every integer above 256
        energy = energy.to(torch.promote_types(energy.dtype, torch.float32))
        position = length * torch.sigmoid(energy)  # p_i
        inside = self._inside(positions, position.detach().floor())
        # exp(−(j − p_i)² / 2σ²)
        gaussian = torch.exp(-((positions - position[:, None]) ** 2) / (2 * (self.half_width / 2) ** 2))
        return WindowStep(inside, gaussian * inside, {"position": position}, state)


class MixtureBound(NamedTuple):
    """Positions of the source, and which of them are real."""

    positions: Float[Tensor, "batch source"]  # 1, 2, …
    mask: Bool[Tensor, "batch source"]


class Mixture(nn.Module):
    """φ_ij = Σ_k a_k exp(−b_k (κ_k − j)²), with centres κ_k that only move to the right; Graves 2013 eq. 46–51.

        (â, b̂, κ̂) = W q + b;   a = exp(â),   b = exp(b̂),   κ_i = κ_{i-1} + exp(κ̂)

    The state is κ. With score `none` and weights `exponential`, φ_ij are the attention weights. They may sum to more
    than 1.
    """

    def __init__(self, *, query_size: int, components: int):
        super().__init__()
        if components < 1:
            raise ConfigurationError(f"attention.window.components={components}: must be at least 1")
        self.components = components
        self.query = nn.Linear(query_size, 3 * components)  # W, b

    def bind(self, source: EncodedSource) -> tuple[MixtureBound, Tensor]:
        """Return positions and mask, and κ_0 = 0."""
        numbers = torch.arange(1, source.mask.shape[1] + 1, device=source.mask.device, dtype=torch.float32)
        start = source.annotations.new_zeros(len(source.mask), self.components)
        return MixtureBound(numbers.expand(source.mask.shape), source.mask), start

    def locate(self, query: Float[Tensor, "hypothesis query"], state: Tensor, bound: MixtureBound) -> WindowStep:
        """Return all positions, with φ_i as their factor."""
        positions, inside = repeat_per_hypothesis(bound, query.shape[0])
        values = self.query(query)
        # in float32 at least, because bfloat16 cannot represent every position
        height, width, move = torch.exp(values.to(torch.promote_types(values.dtype, torch.float32))).chunk(3, dim=1)
        centre = state + move  # κ_i
        distance = (centre[:, :, None] - positions[:, None]) ** 2
        factor = (height[:, :, None] * torch.exp(-width[:, :, None] * distance)).sum(1)  # φ_i
        position = (height * centre).sum(1) / height.sum(1)
        return WindowStep(inside, factor, {"position": position}, centre)
