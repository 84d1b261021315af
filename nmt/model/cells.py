"""Updates of GRU and LSTM states in PyTorch's form; the caller computes the matrix products."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.model.tree import Tree


def gru(
    inputs: Float[Tensor, "hypothesis gates"],
    recurrent: Float[Tensor, "hypothesis gates"],
    hidden: Float[Tensor, "hypothesis hidden"],
) -> Float[Tensor, "hypothesis hidden"]:
    """Return z ⊙ s' + (1 − z) ⊙ tanh(x_n + r ⊙ u_n), where r, z = σ(x + u).

    Args:
        inputs: x, x_n, the products of the inputs.
        recurrent: u, u_n, the products of the previous state.
        hidden: s', the previous state.
    """
    if inputs.is_cuda and inputs.dtype == recurrent.dtype:  # one operation for nine
        return torch.ops.aten._thnn_fused_gru_cell(inputs, recurrent, hidden.to(inputs.dtype))[0]
    # split, because the gradient of a slice is filled to full size: a step 1.01–1.02 ×; with coverage_embedding 1.05 ×
    sizes = (2 * hidden.shape[1], hidden.shape[1])
    x, x_n = inputs.split(sizes, dim=1)
    u, u_n = recurrent.split(sizes, dim=1)
    reset, update = torch.sigmoid(x + u).chunk(2, dim=1)
    candidate = torch.tanh(torch.addcmul(x_n, reset, u_n))
    return torch.lerp(candidate, hidden.to(candidate.dtype), update)


def lstm(
    inputs: Float[Tensor, "hypothesis gates"],
    recurrent: Float[Tensor, "hypothesis gates"],
    cell: Float[Tensor, "hypothesis hidden"],
) -> tuple[Float[Tensor, "hypothesis hidden"], Float[Tensor, "hypothesis hidden"]]:
    """Return h = o ⊙ tanh(c) and c = f ⊙ c' + i ⊙ g. i, f and o are σ, and g is tanh of its gate.

    Args:
        inputs: the products of the inputs.
        recurrent: the products of the previous state; a gate is the sum of both.
        cell: c', the previous cell.
    """
    if inputs.is_cuda and inputs.dtype == recurrent.dtype:
        return torch.ops.aten._thnn_fused_lstm_cell(inputs, recurrent, cell.to(inputs.dtype))[:2]
    input_gate, forget_gate, candidate, output_gate = (inputs + recurrent).chunk(4, dim=1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell


@runtime_checkable
class Cell(Protocol):
    """The interface of a decoder's recurrent cell; `hidden` is the part of its state that other modules see."""

    gates: int  # products of size `hidden` that an update needs

    def start(self, hidden: Tensor) -> Tree:
        """Return the first state, from s_0."""

    def hidden(self, state: Tree) -> Tensor:
        """Return the hidden part of a state."""

    def replace(self, state: Tree, hidden: Tensor) -> Tree:
        """Return the state with another hidden part, such as a memory's."""

    def __call__(self, inputs: Tensor, recurrent: Tensor, state: Tree) -> Tree:
        """Return the new state, from the products of the inputs and of the hidden part."""


class GRU:
    """A cell whose state is its hidden part."""

    gates = 3

    def start(self, hidden: Tensor) -> Tensor:
        """Return s_0."""
        return hidden

    def hidden(self, state: Tensor) -> Tensor:
        """Return the state."""
        return state

    def replace(self, state: Tensor, hidden: Tensor) -> Tensor:
        """Return the other hidden part."""
        return hidden

    def __call__(self, inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        """Return the new state."""
        return gru(inputs, recurrent, state)


class LSTMState(NamedTuple):
    """The hidden part h and the cell c."""

    hidden: Float[Tensor, "hypothesis hidden"]
    cell: Float[Tensor, "hypothesis hidden"]


class LSTM:
    """A cell with a hidden part and a cell, c_0 = 0."""

    gates = 4

    def start(self, hidden: Tensor) -> LSTMState:
        """Return s_0 and c_0 = 0."""
        return LSTMState(hidden, torch.zeros_like(hidden))

    def hidden(self, state: LSTMState) -> Tensor:
        """Return h."""
        return state.hidden

    def replace(self, state: LSTMState, hidden: Tensor) -> LSTMState:
        """Return the state with another h and the same c."""
        return state._replace(hidden=hidden)

    def __call__(self, inputs: Tensor, recurrent: Tensor, state: LSTMState) -> LSTMState:
        """Return the new state."""
        return LSTMState(*lstm(inputs, recurrent, state.cell))
