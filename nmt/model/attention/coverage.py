"""Coverage C_ij: what the attention remembers of each source position; the score reads it in the next step.

Tu 2016 §3 (linguistic with and without fertility, neural), the coverage embeddings of Mi 2016 as described in
Sankaran 2016 §4.1, and the location-aware features of Chorowski 2015. C_{i-1} enters the energies of step i; then step
i updates it to C_i.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.cells import gru
from nmt.model.encoder import EncodedSource
from nmt.model.tree import Tree, repeat_per_hypothesis

Alignment = Float[Tensor, "hypothesis source"]
Query = Float[Tensor, "hypothesis query"]
Word = Float[Tensor, "hypothesis word"]
Annotations = Float[Tensor, "batch source annotation"]
Vectors = Float[Tensor, "hypothesis source coverage"]  # C_ij of all j
ENERGY_AT_PADDING = -1e4  # in place of −inf, because −inf · 0 is NaN


class ReadStep(NamedTuple):
    """The values of step i, which update C_{i-1} to C_i."""

    query: Query  # t_{i-1} in Tu 2016
    word: Word  # e(y_{i-1})
    energies: Alignment  # e_ij; −inf at padding
    alignment: Alignment  # α_ij
    context: Float[Tensor, "hypothesis context"]  # c_i


class Coverage(nn.Module):
    """The interface of a coverage, and the methods that most coverages share; `size` is d."""

    shows: tuple[str, ...] = ("coverage",)  # the names of the trace

    def __init__(self, *, size: int):
        super().__init__()
        if size < 1:
            raise ConfigurationError(f"attention.coverage.size={size}: must be at least 1")
        self.size = size

    def project(self, annotations: Annotations) -> Tree:
        """Return the products with h_j; interactive attention repeats them after each write."""
        return ()

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return the values that are fixed for each sentence, and C_0 = 0."""
        return (), source.annotations.new_zeros(*source.mask.shape, self.size)

    def read(self, word: Word, state: Tree) -> tuple[Vectors, Tree]:
        """Return C_{i-1} and the state; `word` is e(y_{i-1})."""
        return state, state

    def update(self, step: ReadStep, state: Tree, projected: Tree, bound: Tree) -> Tree:
        """Return C_i.

        Args:
            step: the values of step i.
            state: C_{i-1}.
            projected: the products with h_j.
            bound: the values that are fixed for each sentence.
        """
        raise NotImplementedError

    def trace(self, state: Tree, bound: Tree) -> dict[str, Tensor]:
        """Return values for plots and analyses, by name."""
        return {"coverage": state}


class Linguistic(Coverage):
    """C_ij = C_{i-1,j} + α_ij: the sum of the weights; Tu 2016 §3.1.1 without fertility (Φ = 1)."""

    def __init__(self):
        super().__init__(size=1)

    def update(self, step: ReadStep, state: Vectors, projected: Tree, bound: Tree) -> Vectors:
        """Return C_i."""
        return state + step.alignment[:, :, None]


class Fertility(Coverage):
    """C_ij = C_{i-1,j} + α_ij / Φ_j,  Φ_j = N · σ(U_f h_j); Tu 2016 eq. 7–8.

    Args:
        annotation_size: size of h_j.
        most: N, the largest fertility.
    """

    shows = ("coverage", "fertility")

    def __init__(self, *, annotation_size: int, most: float = 2.0):
        super().__init__(size=1)
        if most <= 0:
            raise ConfigurationError(f"attention.coverage.most={most}: must be above 0")
        self.most = most
        self.fertility = nn.Linear(annotation_size, 1, bias=False)  # U_f

    def bind(self, source: EncodedSource) -> tuple[Float[Tensor, "batch source"], Vectors]:
        """Return Φ and C_0 = 0."""
        _, start = super().bind(source)
        return self.most * torch.sigmoid(self.fertility(source.annotations)[:, :, 0]), start

    def update(self, step: ReadStep, state: Vectors, projected: Tree, bound: Tensor) -> Vectors:
        """Return C_i."""
        return state + (step.alignment / repeat_per_hypothesis(bound, state.shape[0]))[:, :, None]

    def trace(self, state: Vectors, bound: Tensor) -> dict[str, Tensor]:
        """Return C_i and Φ."""
        return {"coverage": state, "fertility": repeat_per_hypothesis(bound, state.shape[0])}


class NeuralTanh(Coverage):
    """C_ij = tanh(W C_{i-1,j} + a α_ij + B h_j + T t_{i-1}), where t_{i-1} is the query; Tu 2016 §3.1.2.

    Args:
        size: d.
        annotation_size: size of h_j.
        query_size: size of t_{i-1}.
        context_size: size of c_i, a further input of footnote 3; 0: not an input.
        energies: e_ij is an input too (footnote 3).
    """

    gates = 1

    def __init__(
        self, *, size: int, annotation_size: int, query_size: int, context_size: int = 0, energies: bool = False
    ):
        super().__init__(size=size)
        self.recurrent = nn.Linear(size, self.gates * size, bias=False)  # W
        self.alignment = nn.Linear(1, self.gates * size, bias=False)  # a
        self.annotation = nn.Linear(annotation_size, self.gates * size, bias=False)  # B
        self.query = nn.Linear(query_size, self.gates * size, bias=False)  # T
        self.context = nn.Linear(context_size, self.gates * size, bias=False) if context_size else None
        self.energies = nn.Linear(1, self.gates * size, bias=False) if energies else None

    def project(self, annotations: Annotations) -> Float[Tensor, "batch source gates"]:
        """Return B h_j."""
        return self.annotation(annotations)

    def update(self, step: ReadStep, state: Vectors, projected: Tensor, bound: Tree) -> Vectors:
        """Return C_i."""
        return torch.tanh(self._inputs(step, projected) + self.recurrent(state))

    def _inputs(self, step: ReadStep, projected: Tensor) -> Float[Tensor, "hypothesis source gates"]:
        """Return a α_ij + B h_j + T t_{i-1}, and the further inputs."""
        inputs = self.alignment(step.alignment[:, :, None]) + self.query(step.query)[:, None]
        if self.context is not None:
            inputs = inputs + self.context(step.context)[:, None]
        if self.energies is not None:
            inputs = inputs + self.energies(step.energies.clamp(min=ENERGY_AT_PADDING)[:, :, None])
        by_sentence = inputs.unflatten(0, (projected.shape[0], -1))  # (B, beams, S, gates)
        return (by_sentence + projected[:, None]).flatten(0, 1)


class NeuralGRU(NeuralTanh):
    """The same inputs through a GRU: the "gating" of Tu 2016 §3.1.2 and Table 1."""

    gates = 3

    def update(self, step: ReadStep, state: Vectors, projected: Tensor, bound: Tree) -> Vectors:
        """Return C_i."""
        return _gru_at_each_position(self._inputs(step, projected), self.recurrent(state), state)


class EmbeddingState(NamedTuple):
    """C_{i-1}, and α_i until the next step, because the update needs y_i too."""

    coverage: Vectors
    pending_alignment: Alignment | tuple[()]  # () if no update is pending


class Embedding(Coverage):
    """C_0j is an embedding of the source word; a GRU with inputs e(y_i) and α_ij updates it; Sankaran 2016 §4.1."""

    def __init__(self, *, size: int, vocabulary_size: int, word_size: int):
        super().__init__(size=size)
        self.embedding = nn.Embedding(vocabulary_size, size)
        self.recurrent = nn.Linear(size, 3 * size, bias=False)
        self.alignment = nn.Linear(1, 3 * size, bias=False)
        self.word = nn.Linear(word_size, 3 * size, bias=False)

    def bind(self, source: EncodedSource) -> tuple[Tree, EmbeddingState]:
        """Return C_0."""
        return (), EmbeddingState(self.embedding(source.words), ())

    def read(self, word: Word, state: EmbeddingState) -> tuple[Vectors, EmbeddingState]:
        """Return C_{i-1}, after the pending update with y_{i-1}."""
        if isinstance(state.pending_alignment, Tensor):
            inputs = self.alignment(state.pending_alignment[:, :, None]) + self.word(word)[:, None]
            coverage = _gru_at_each_position(inputs, self.recurrent(state.coverage), state.coverage)
            state = EmbeddingState(coverage, ())
        return state.coverage, state

    def update(self, step: ReadStep, state: EmbeddingState, projected: Tree, bound: Tree) -> EmbeddingState:
        """Return the state with α_i pending."""
        return EmbeddingState(state.coverage, step.alignment)

    def trace(self, state: EmbeddingState, bound: Tree) -> dict[str, Tensor]:
        """Return C_{i-1}, because C_i does not exist yet."""
        return {"coverage": state.coverage}


class LocationAware(Coverage):
    """C_ij = (F ∗ α_i)_j: filters F over the last weights; Chorowski 2015 eq. 8. The state is α_i, and α_0 = 0.

    Args:
        size: number of filters.
        half_width: a filter covers the positions j − half_width to j + half_width.
    """

    shows = ()

    def __init__(self, *, size: int, half_width: int):
        super().__init__(size=size)
        if half_width < 0:
            raise ConfigurationError(f"attention.coverage.half_width={half_width}: must be at least 0")
        self.filters = nn.Conv1d(1, size, 2 * half_width + 1, padding=half_width, bias=False)

    def bind(self, source: EncodedSource) -> tuple[Tree, Alignment]:
        """Return α_0 = 0."""
        return (), source.annotations.new_zeros(source.mask.shape)

    def read(self, word: Word, state: Alignment) -> tuple[Vectors, Alignment]:
        """Return F ∗ α_{i-1}."""
        return self.filters(state[:, None]).transpose(1, 2), state

    def update(self, step: ReadStep, state: Alignment, projected: Tree, bound: Tree) -> Alignment:
        """Return α_i."""
        return step.alignment

    def trace(self, state: Alignment, bound: Tree) -> dict[str, Tensor]:
        """Return nothing, because the alignment is in the trace already."""
        return {}


class Joined(Coverage):
    """Several coverages as one: their vectors side by side.

    Args:
        parts: the coverages, by name.
    """

    def __init__(self, *, parts: Mapping[str, Coverage]):
        super().__init__(size=sum(part.size for part in parts.values()))
        self.parts = nn.ModuleDict(parts)
        self.shows = tuple(name for part in parts.values() for name in part.shows)
        if len(set(self.shows)) < len(self.shows):
            raise ConfigurationError(f"attention.coverage.parts: two of {', '.join(parts)} show the same values")

    def project(self, annotations: Annotations) -> Tree:
        """Return the products of each part."""
        return tuple(part.project(annotations) for part in self.parts.values())

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return the fixed values and the first state of each part."""
        return tuple(zip(*(part.bind(source) for part in self.parts.values()), strict=True))

    def read(self, word: Word, state: Tree) -> tuple[Vectors, Tree]:
        """Return C_{i-1} of all parts, and their states."""
        parts = zip(self.parts.values(), state, strict=True)
        vectors, states = zip(*(part.read(word, part_state) for part, part_state in parts), strict=True)
        return torch.cat(vectors, dim=2), states

    def update(self, step: ReadStep, state: Tree, projected: Tree, bound: Tree) -> Tree:
        """Return the new state of each part."""
        parts = zip(self.parts.values(), state, projected, bound, strict=True)
        return tuple(part.update(step, *values) for part, *values in parts)

    def trace(self, state: Tree, bound: Tree) -> dict[str, Tensor]:
        """Return the values of all parts."""
        parts = zip(self.parts.values(), state, bound, strict=True)
        return {name: value for part, *values in parts for name, value in part.trace(*values).items()}


def _gru_at_each_position(inputs: Tensor, recurrent: Tensor, coverage: Vectors) -> Vectors:
    updated = gru(inputs.flatten(0, 1), recurrent.flatten(0, 1), coverage.flatten(0, 1))
    return updated.unflatten(0, coverage.shape[:2])
