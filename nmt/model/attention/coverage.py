"""Coverage C_ij: the attention that each source position got so far; the score reads it in the next step.

Tu 2016 §3 (linguistic with and without fertility, neural), and the coverage embeddings of Mi 2016 as described in
Sankaran 2016 §4.1. C_{i-1} enters the energies of step i; then α_i updates it to C_i.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
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
Unpadded = Bool[Tensor, "target batch source"]  # steps and positions that are not padding
Penalty = Callable[[dict[str, Tensor], Unpadded], Float[Tensor, ""]]  # a function of the trace of a batch


class Coverage(nn.Module):
    """The interface of a coverage, and the methods that most coverages share; `size` is d."""

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

    def update(self, alignment: Alignment, query: Query, state: Tree, projected: Tree, bound: Tree) -> Tree:
        """Return C_i.

        Args:
            alignment: α_i.
            query: the query of step i, t_{i-1} in Tu 2016.
            state: C_{i-1}.
            projected: the products with h_j.
            bound: the values that are fixed for each sentence.
        """
        raise NotImplementedError

    def trace(self, state: Tree, bound: Tree) -> dict[str, Tensor]:
        """Return values for plots and analyses, by name."""
        return {"coverage": state}

    @property
    def penalty(self) -> Penalty | None:
        """A term of the training objective."""
        return None


class Linguistic(Coverage):
    """C_ij = C_{i-1,j} + α_ij: the sum of the weights; Tu 2016 §3.1.1 without fertility."""

    def __init__(self):
        super().__init__(size=1)

    def update(self, alignment: Alignment, query: Query, state: Vectors, projected: Tree, bound: Tree) -> Vectors:
        """Return C_i."""
        return state + alignment[:, :, None]


class Fertility(Coverage):
    """C_ij = C_{i-1,j} + α_ij / Φ_j,  Φ_j = N · σ(U_f h_j); Tu 2016 eq. 7–8.

    Args:
        annotation_size: size of h_j.
        most: N, the largest fertility.
        auxiliary: λ of the auxiliary objective λ Σ_j (Φ_j − Σ_i α_ij)² of §4.
    """

    def __init__(self, *, annotation_size: int, most: float = 2.0, auxiliary: float = 0.0):
        super().__init__(size=1)
        if most <= 0:
            raise ConfigurationError(f"attention.coverage.most={most}: must be above 0")
        if auxiliary < 0:
            raise ConfigurationError(f"attention.coverage.auxiliary={auxiliary}: must be at least 0")
        self.most, self.auxiliary = most, auxiliary
        self.fertility = nn.Linear(annotation_size, 1, bias=False)  # U_f

    def bind(self, source: EncodedSource) -> tuple[Float[Tensor, "batch source"], Vectors]:
        """Return Φ and C_0 = 0."""
        _, start = super().bind(source)
        return self.most * torch.sigmoid(self.fertility(source.annotations)[:, :, 0]), start

    def update(self, alignment: Alignment, query: Query, state: Vectors, projected: Tree, bound: Tensor) -> Vectors:
        """Return C_i."""
        return state + (alignment / repeat_per_hypothesis(bound, alignment.shape[0]))[:, :, None]

    def trace(self, state: Vectors, bound: Tensor) -> dict[str, Tensor]:
        """Return C_i and Φ."""
        return {"coverage": state, "fertility": repeat_per_hypothesis(bound, state.shape[0])}

    @property
    def penalty(self) -> Penalty | None:
        """The auxiliary objective, if λ is not 0."""
        return self._auxiliary_objective if self.auxiliary else None

    def _auxiliary_objective(self, trace: dict[str, Tensor], unpadded: Unpadded) -> Float[Tensor, ""]:
        """Return λ Σ_j (Φ_j − Σ_i α_ij)²."""
        attention = (trace["alignment"] * unpadded).sum(0)
        return self.auxiliary * ((trace["fertility"][0] - attention) ** 2 * unpadded.any(0)).sum()


class NeuralTanh(Coverage):
    """C_ij = tanh(W C_{i-1,j} + a α_ij + B h_j + T t_{i-1}), where t_{i-1} is the query; Tu 2016 §3.1.2."""

    def __init__(self, *, size: int, annotation_size: int, query_size: int, gates: int = 1):
        super().__init__(size=size)
        self.recurrent = nn.Linear(size, gates * size, bias=False)  # W
        self.alignment = nn.Linear(1, gates * size, bias=False)  # a
        self.annotation = nn.Linear(annotation_size, gates * size, bias=False)  # B
        self.query = nn.Linear(query_size, gates * size, bias=False)  # T

    def project(self, annotations: Annotations) -> Float[Tensor, "batch source gates"]:
        """Return B h_j."""
        return self.annotation(annotations)

    def update(self, alignment: Alignment, query: Query, state: Vectors, projected: Tensor, bound: Tree) -> Vectors:
        """Return C_i."""
        return torch.tanh(self._inputs(alignment, query, projected) + self.recurrent(state))

    def _inputs(
        self, alignment: Alignment, query: Query, projected: Tensor
    ) -> Float[Tensor, "hypothesis source gates"]:
        """Return a α_ij + B h_j + T t_{i-1}."""
        step_inputs = self.alignment(alignment[:, :, None]) + self.query(query)[:, None]
        by_sentence = step_inputs.unflatten(0, (projected.shape[0], -1))  # (B, beams, S, gates)
        return (by_sentence + projected[:, None]).flatten(0, 1)


class NeuralGRU(NeuralTanh):
    """The same inputs through a GRU: the "gating" of Tu 2016 §3.1.2 and Table 1."""

    def __init__(self, *, size: int, annotation_size: int, query_size: int):
        super().__init__(size=size, annotation_size=annotation_size, query_size=query_size, gates=3)

    def update(self, alignment: Alignment, query: Query, state: Vectors, projected: Tensor, bound: Tree) -> Vectors:
        """Return C_i."""
        inputs = self._inputs(alignment, query, projected)
        return _gru_at_each_position(inputs, self.recurrent(state), state)


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

    def update(
        self, alignment: Alignment, query: Query, state: EmbeddingState, projected: Tree, bound: Tree
    ) -> EmbeddingState:
        """Return the state with α_i pending."""
        return EmbeddingState(state.coverage, alignment)

    def trace(self, state: EmbeddingState, bound: Tree) -> dict[str, Tensor]:
        """Return C_{i-1}, because C_i does not exist yet."""
        return {"coverage": state.coverage}


def _gru_at_each_position(inputs: Tensor, recurrent: Tensor, coverage: Vectors) -> Vectors:
    updated = gru(inputs.flatten(0, 1), recurrent.flatten(0, 1), coverage.flatten(0, 1))
    return updated.unflatten(0, coverage.shape[:2])
