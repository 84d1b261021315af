"""External memories of a decoder: read in place of s_{i-1} before the attention, written after the state update."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.score import Additive
from nmt.model.encoder import EncodedSource
from nmt.model.gated_write import erase_and_add
from nmt.model.tree import Tree

Hidden = Float[Tensor, "hypothesis hidden"]
Weights = Float[Tensor, "hypothesis cell"]
Cells = Float[Tensor, "hypothesis cell hidden"]


class NoMemory(nn.Module):
    """A decoder without memory: r = s_{i-1}."""

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return empty values."""
        return (), ()

    def read(self, hidden: Hidden, state: Tree, bound: Tree) -> tuple[Hidden, Tree, dict[str, Tensor]]:
        """Return s_{i-1} itself, and an empty trace."""
        return hidden, state, {}

    def write(self, hidden: Hidden, state: Tree, bound: Tree) -> Tree:
        """Return the state unchanged."""
        return state


class BufferState(NamedTuple):
    """M_i, and the last weights of reading and writing."""

    cells: Cells
    read_weights: Weights
    write_weights: Tree  # () if writing shares the weights of reading


class Buffer(nn.Module):
    """The memory of MEMDEC: n cells of the state's size; Wang 2016 §3.

        M_0(k) = tanh(W_INI Σ_j h_j / J) + ξ_k,  ξ_k ~ N(0, noise²)                          (eq. 14–15)
        read:   w = address(M_{i-1}, s_{i-1});  r = Σ_k w(k) M_{i-1}(k)                      (eq. 4)
        write:  M_i(k) = M_{i-1}(k) ⊙ (1 − w(k) σ(W_ERS s_i)) + w(k) σ(W_ADD s_i)            (eq. 13)

    Args:
        cells: n.
        annotation_size: size of h_j.
        hidden_size: size of s_i and of a cell.
        shared: write with the weights of reading ("often beneficial", §3.2); else s_i addresses the cells again.
        noise: standard deviation of ξ, which is drawn at construction and stored with the parameters.
        resample: draw ξ for every sentence in training; evaluation always uses the stored ξ.
    """

    def __init__(
        self, *, cells: int, annotation_size: int, hidden_size: int, shared: bool, noise: float, resample: bool
    ):
        super().__init__()
        if cells < 1:
            raise ConfigurationError(f"memory.cells={cells}: must be at least 1")
        if noise < 0:
            raise ConfigurationError(f"memory.noise={noise}: must be at least 0")
        self.noise, self.resample = noise, resample
        self.start = nn.Linear(annotation_size, hidden_size, bias=False)  # W_INI
        self.register_buffer("perturbation", noise * torch.randn(cells, hidden_size))  # ξ
        self.reading = Addressing(hidden_size=hidden_size)
        self.writing = None if shared else Addressing(hidden_size=hidden_size)
        self.erase = nn.Linear(hidden_size, hidden_size, bias=False)  # W_ERS
        self.add = nn.Linear(hidden_size, hidden_size, bias=False)  # W_ADD

    def bind(self, source: EncodedSource) -> tuple[Tree, BufferState]:
        """Return M_0 and uniform weights w_0."""
        mean = torch.tanh(self.start(source.mean_annotation()))
        noise = self.perturbation.expand(len(mean), -1, -1)
        if self.resample and self.training:
            noise = self.noise * torch.randn_like(noise)
        cells = mean[:, None] + noise
        uniform = cells.new_full(cells.shape[:2], 1 / cells.shape[1])
        return (), BufferState(cells, uniform, uniform if self.writing else ())

    def read(self, hidden: Hidden, state: BufferState, bound: Tree) -> tuple[Hidden, BufferState, dict[str, Tensor]]:
        """Return r, the state with the new weights, and the trace; `hidden` is s_{i-1}."""
        weights, gate = self.reading(state.cells, hidden, state.read_weights)
        recalled = torch.bmm(weights[:, None].to(state.cells.dtype), state.cells)[:, 0]
        trace = {"memory_weights": weights[:, None], "memory_gate": gate, "memory_cells": state.cells[:, None]}
        return recalled, state._replace(read_weights=weights), trace

    def write(self, hidden: Hidden, state: BufferState, bound: Tree) -> BufferState:
        """Return the state with M_i; `hidden` is s_i."""
        weights = state.read_weights
        if self.writing:
            weights, _ = self.writing(state.cells, hidden, state.write_weights)
            state = state._replace(write_weights=weights)
        erase, add = torch.sigmoid(self.erase(hidden)), torch.sigmoid(self.add(hidden))
        return state._replace(cells=erase_and_add(state.cells.to(erase.dtype), weights, erase, add))


class Addressing(nn.Module):
    """w_i = g w_{i-1} + (1 − g) softmax_k(v · tanh(W M(k) + U s)),  g = σ(w_g · s); eq. 10–12.

    Equation 12 prints no tanh, but without one s would cancel in the softmax.
    """

    def __init__(self, *, hidden_size: int):
        super().__init__()
        self.score = Additive(query_size=hidden_size, annotation_size=hidden_size, attention_size=hidden_size)
        self.gate = nn.Linear(hidden_size, 1, bias=False)  # w_g

    def forward(self, cells: Cells, hidden: Hidden, previous: Weights) -> tuple[Weights, Float[Tensor, "hypothesis 1"]]:
        """Return w_i and g; `previous` is w_{i-1}."""
        energies = self.score.energies(hidden[:, None], self.score.bind(cells))[:, 0]
        content = torch.softmax(energies, dim=1)  # float32 under the autocast of CUDA
        gate = torch.sigmoid(self.gate(hidden)).to(content.dtype)
        return torch.lerp(content, previous.to(content.dtype), gate), gate
