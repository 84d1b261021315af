"""Memories a decoder may carry beside its state: read before the attention is asked, written after the update."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.score import Additive
from nmt.model.encoder import Encoded
from nmt.model.gated_write import erase_and_add
from nmt.model.tree import Tree

Hidden = Float[Tensor, "hypothesis hidden"]
Weights = Float[Tensor, "hypothesis cell"]
Cells = Float[Tensor, "hypothesis cell hidden"]


class NoMemory(nn.Module):
    """r = s_{i-1}: the decoder's state is all it remembers."""

    def bind(self, source: Encoded) -> tuple[Tree, Tree]:
        return (), ()

    def read(self, hidden: Hidden, state: Tree, bound: Tree) -> tuple[Hidden, Tree, dict[str, Tensor]]:
        return hidden, state, {}

    def write(self, hidden: Hidden, state: Tree, bound: Tree) -> Tree:
        return state


class Stored(NamedTuple):
    """M_i, and the weights it was last read and written with."""

    cells: Cells
    reading: Weights
    writing: Tree  # of a writing with weights of its own


class Buffer(nn.Module):
    """n cells of the state's size, read in its place; MEMDEC, Wang 2016 §3.

        M_0(k) = tanh(W_INI Σ_j h_j / J) + ξ_k,  ξ_k ~ N(0, noise²)                          (eq. 14–15)
        read:   w = address(M_{i-1}, s_{i-1});  r = Σ_k w(k) M_{i-1}(k)                      (eq. 4)
        write:  M_i(k) = M_{i-1}(k) ⊙ (1 − w(k) σ(W_ERS s_i)) + w(k) σ(W_ADD s_i)            (eq. 13)

    `shared`: writing takes the weights of reading ("often beneficial", §3.2), or addresses with s_i by parameters of
    its own. ξ is drawn once at construction and stored with the weights; `resample: true` draws it anew for every
    sentence in training. Evaluation always takes the stored one.
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

    def bind(self, source: Encoded) -> tuple[Tree, Stored]:
        mean = torch.tanh(self.start(source.mean()))
        noise = self.perturbation.expand(len(mean), -1, -1)
        if self.resample and self.training:
            noise = self.noise * torch.randn_like(noise)
        cells = mean[:, None] + noise
        uniform = cells.new_full(cells.shape[:2], 1 / cells.shape[1])  # w_0
        return (), Stored(cells, uniform, uniform if self.writing else ())

    def read(self, hidden: Hidden, state: Stored, bound: Tree) -> tuple[Hidden, Stored, dict[str, Tensor]]:
        weights, gate = self.reading(state.cells, hidden, state.reading)
        read = torch.bmm(weights[:, None].to(state.cells.dtype), state.cells)[:, 0]
        return read, state._replace(reading=weights), {"memory_weights": weights[:, None], "memory_gate": gate}

    def write(self, hidden: Hidden, state: Stored, bound: Tree) -> Stored:
        writing = self.writing(state.cells, hidden, state.writing)[0] if self.writing else ()
        erase, add = torch.sigmoid(self.erase(hidden)), torch.sigmoid(self.add(hidden))
        weights = writing if self.writing else state.reading
        return Stored(erase_and_add(state.cells.to(erase.dtype), weights, erase, add), state.reading, writing)


class Addressing(nn.Module):
    """w_i = g w_{i-1} + (1 − g) softmax_k(v · tanh(W M(k) + U s)),  g = σ(w_g · s); eq. 10–12.

    Equation 12 prints no tanh; without one s would cancel in the softmax.
    """

    def __init__(self, *, hidden_size: int):
        super().__init__()
        self.score = Additive(query_size=hidden_size, annotation_size=hidden_size, attention_size=hidden_size)
        self.gate = nn.Linear(hidden_size, 1, bias=False)  # w_g

    def forward(self, cells: Cells, hidden: Hidden, before: Weights) -> tuple[Weights, Float[Tensor, "hypothesis 1"]]:
        energies = self.score.energies(hidden[:, None], self.score.bind(cells))[:, 0]
        found = torch.softmax(energies, dim=1)  # float32 under CUDA's autocast, whatever the energies are
        gate = torch.sigmoid(self.gate(hidden)).to(found.dtype)
        return torch.lerp(found, before.to(found.dtype), gate), gate
