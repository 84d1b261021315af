"""The buffer memory of MEMDEC (Wang 2016 §3): a list of n cells M(k), each a vector of size m."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Addressing(NamedTuple):
    """The parameters of content-based addressing: W and U (size, m), v (size,), w_g (m,)."""

    W: Tensor
    U: Tensor
    v: Tensor
    w_g: Tensor


def initial_cells(annotations: Sequence[Tensor], noise: Sequence[Tensor], *, W_INI: Tensor) -> list[Tensor]:
    """Return M_0(k) from the mean annotation and a given noise vector ξ_k for each cell (eq. 14–15)."""
    total = torch.zeros_like(annotations[0])
    for annotation in annotations:
        total = total + annotation
    mean = torch.tanh(W_INI @ (total / len(annotations)))  # eq. 15: m̄ = tanh(W_INI Σ_j h_j / J)
    return [mean + xi for xi in noise]  # eq. 14: M(k) = m̄ + ξ_k


def uniform_weights(cells: Sequence[Tensor]) -> list[Tensor]:
    """Return w_0."""
    return [cells[0].new_tensor(1.0 / len(cells)) for _ in cells]


def address(
    cells: Sequence[Tensor], state: Tensor, previous: Sequence[Tensor], *, W: Tensor, U: Tensor, v: Tensor, w_g: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return the weights w_i and the gate g (eq. 10–12); `previous` is w_{i−1}."""
    a = [v @ torch.tanh(W @ cell + U @ state) for cell in cells]  # eq. 12, with a tanh (mechanisms.md)
    total = state.new_zeros(())
    for k in range(len(cells)):
        total = total + torch.exp(a[k])
    g = torch.sigmoid(w_g @ state)  # g = σ(w_g · s)
    weights = []
    for k in range(len(cells)):
        content = torch.exp(a[k]) / total  # eq. 11: w̃ = softmax_k(a)
        weights.append(g * previous[k] + (1 - g) * content)  # eq. 10
    return weights, g


def read(cells: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Return r = Σ_k w(k) M(k) (Wang 2016 §3.1)."""
    r = torch.zeros_like(cells[0])
    for k in range(len(cells)):
        r = r + weights[k] * cells[k]
    return r


def write(
    cells: Sequence[Tensor], weights: Sequence[Tensor], state: Tensor, *, W_ERS: Tensor, W_ADD: Tensor
) -> list[Tensor]:
    """Return the cells after erasing and adding (eq. 13 and the next equation)."""
    erase = torch.sigmoid(W_ERS @ state)  # μ_ERS = σ(W_ERS s_i)
    add = torch.sigmoid(W_ADD @ state)  # μ_ADD = σ(W_ADD s_i)
    written = []
    for k in range(len(cells)):
        erased = cells[k] * (1 - weights[k] * erase)  # eq. 13
        written.append(erased + weights[k] * add)
    return written


class Buffer:
    """The memory of one sentence; it writes with the weights of reading if `writing` is None."""

    def __init__(
        self,
        annotations: Sequence[Tensor],
        noise: Sequence[Tensor],
        *,
        W_INI: Tensor,
        reading: Addressing,
        W_ERS: Tensor,
        W_ADD: Tensor,
        writing: Addressing | None = None,
    ) -> None:
        self.cells = initial_cells(annotations, noise, W_INI=W_INI)
        self.reading, self.writing, self.W_ERS, self.W_ADD = reading, writing, W_ERS, W_ADD
        self.read_weights = [uniform_weights(self.cells)]  # w_0, w_1, …
        self.write_weights = [uniform_weights(self.cells)]
        self.gates: list[Tensor] = []
        self.versions: list[list[Tensor]] = [list(self.cells)]  # M_0, M_1, …

    def read(self, i: int, state: Tensor) -> Tensor:
        """Return r_{i−1} = read(s_{i−1}, M_{i−1}) (eq. 4); `state` is s_{i−1}."""
        weights, gate = address(self.cells, state, self.read_weights[-1], **self.reading._asdict())
        self.read_weights.append(weights)
        self.gates.append(gate)
        return read(self.cells, weights)

    def write(self, i: int, state: Tensor) -> None:
        """Compute M_i = write(s_i, M_{i−1}) (eq. 8); separate weights have a separate w_0 and gate; `state` is s_i."""
        if self.writing is None:
            weights = self.read_weights[-1]
        else:
            weights, _ = address(self.cells, state, self.write_weights[-1], **self.writing._asdict())
        self.write_weights.append(weights)
        self.cells = write(self.cells, weights, state, W_ERS=self.W_ERS, W_ADD=self.W_ADD)
        self.versions.append(list(self.cells))
