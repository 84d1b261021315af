"""Coverage: what each source position was given so far, C_ij, told to the score at the next step.

Tu 2016 §3 (linguistic with and without fertility, neural), and the embeddings of Mi 2016 as Sankaran 2016 §4.1 tells.
C_{i-1} enters the energies of step i; what was read at step i then makes C_i of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.cells import gru
from nmt.model.encoder import Encoded
from nmt.model.tree import Tree, for_each_hypothesis

Alignment = Float[Tensor, "hypothesis source"]
Query = Float[Tensor, "hypothesis query"]
Word = Float[Tensor, "hypothesis word"]
Real = Bool[Tensor, "target batch source"]  # which steps and positions are no padding
Penalty = Callable[[dict[str, Tensor], Real], Float[Tensor, ""]]  # of a batch's trace
Covered = Float[Tensor, "hypothesis source coverage"]


class Coverage(nn.Module):
    """What an attention asks of a coverage; a kind overrides what it does otherwise.

    `size` is d. `project` takes from the annotations what does not depend on the step, `bind` what is fixed for the
    sentence even where an attention rewrites its annotations.
    """

    def __init__(self, *, size: int):
        super().__init__()
        if size < 1:
            raise ConfigurationError(f"attention.coverage.size={size}: must be at least 1")
        self.size = size

    def project(self, annotations: Float[Tensor, "batch source annotation"]) -> Tree:
        return ()

    def bind(self, source: Encoded) -> tuple[Tree, Tree]:
        """C_0 = 0."""
        return (), source.annotations.new_zeros(*source.mask.shape, self.size)

    def before(self, word: Word, state: Tree) -> tuple[Covered, Tree]:
        """C_{i-1}, now that the word before is known."""
        return state, state

    def after(self, alignment: Alignment, query: Query, state: Tree, projected: Tree, bound: Tree) -> Tree:
        """C_i of C_{i-1}, the weights α_i just read, and the query they were read with."""
        raise NotImplementedError

    def trace(self, state: Tree, bound: Tree) -> dict[str, Tensor]:
        return {"coverage": state}

    @property
    def penalty(self) -> Penalty | None:
        """What joins the objective of a batch, if anything does."""
        return None


class Linguistic(Coverage):
    """C_ij = C_{i-1,j} + α_ij: the weights summed; Tu 2016 §3.1.1 without fertility."""

    def __init__(self):
        super().__init__(size=1)

    def after(self, alignment: Alignment, query: Query, state: Covered, projected: Tree, bound: Tree) -> Covered:
        return state + alignment[:, :, None]


class Fertility(Coverage):
    """C_ij = C_{i-1,j} + α_ij / Φ_j,  Φ_j = N · σ(U_f h_j); Tu 2016 eq. 7–8.

    `auxiliary` is the λ of §4: λ Σ_j (Φ_j − Σ_i α_ij)² joins the objective.
    """

    def __init__(self, *, annotation_size: int, most: float = 2.0, auxiliary: float = 0.0):
        super().__init__(size=1)
        if most <= 0 or auxiliary < 0:
            raise ConfigurationError(
                f"attention.coverage.most={most} must be above 0, attention.coverage.auxiliary={auxiliary} at least 0"
            )
        self.most, self.auxiliary = most, auxiliary
        self.fertility = nn.Linear(annotation_size, 1, bias=False)  # U_f

    def bind(self, source: Encoded) -> tuple[Float[Tensor, "batch source"], Covered]:
        _, start = super().bind(source)
        return self.most * torch.sigmoid(self.fertility(source.annotations)[:, :, 0]), start

    def after(self, alignment: Alignment, query: Query, state: Covered, projected: Tree, bound: Tensor) -> Covered:
        return state + (alignment / for_each_hypothesis(bound, alignment.shape[0]))[:, :, None]

    def trace(self, state: Covered, bound: Tensor) -> dict[str, Tensor]:
        return {"coverage": state, "fertility": for_each_hypothesis(bound, state.shape[0])}

    @property
    def penalty(self) -> Penalty | None:
        return self._auxiliary_objective if self.auxiliary else None

    def _auxiliary_objective(self, trace: dict[str, Tensor], real: Real) -> Float[Tensor, ""]:
        """λ Σ_j (Φ_j − Σ_i α_ij)²"""
        given = (trace["alignment"] * real).sum(0)
        return self.auxiliary * ((trace["fertility"][0] - given) ** 2 * real.any(0)).sum()


class NeuralTanh(Coverage):
    """C_ij = tanh(W C_{i-1,j} + a α_ij + B h_j + T t_{i-1}); Tu 2016 §3.1.2. t_{i-1} is what the attention was asked
    with; B h_j stands outside the loop."""

    def __init__(self, *, size: int, annotation_size: int, query_size: int, gates: int = 1):
        super().__init__(size=size)
        self.recurrent = nn.Linear(size, gates * size, bias=False)  # W
        self.alignment = nn.Linear(1, gates * size, bias=False)  # a
        self.annotation = nn.Linear(annotation_size, gates * size, bias=False)  # B
        self.query = nn.Linear(query_size, gates * size, bias=False)  # T

    def project(self, annotations: Float[Tensor, "batch source annotation"]) -> Float[Tensor, "batch source gates"]:
        return self.annotation(annotations)

    def after(self, alignment: Alignment, query: Query, state: Covered, projected: Tensor, bound: Tree) -> Covered:
        return torch.tanh(self._inputs(alignment, query, projected) + self.recurrent(state))

    def _inputs(
        self, alignment: Alignment, query: Query, projected: Tensor
    ) -> Float[Tensor, "hypothesis source gates"]:
        """a α_ij + B h_j + T t_{i-1}"""
        beams = (projected.shape[0], -1)
        told = self.alignment(alignment[:, :, None]) + self.query(query)[:, None]
        return (told.unflatten(0, beams) + projected[:, None]).flatten(0, 1)


class NeuralGRU(NeuralTanh):
    """The same inputs through a GRU: the "gating" of Tu 2016 §3.1.2 and Table 1."""

    def __init__(self, *, size: int, annotation_size: int, query_size: int):
        super().__init__(size=size, annotation_size=annotation_size, query_size=query_size, gates=3)

    def after(self, alignment: Alignment, query: Query, state: Covered, projected: Tensor, bound: Tree) -> Covered:
        inputs = self._inputs(alignment, query, projected)
        return _gru_everywhere(inputs, self.recurrent(state), state)


class Waiting(NamedTuple):
    """C_{i-1} and the weights still to enter it: the word they were spent on is known at the next step."""

    covered: Covered
    alignment: Alignment | tuple[()]  # () before the first step


class Embedding(Coverage):
    """C_0j is an embedding of the source word; a GRU with inputs e(y_i) and α_ij updates it; Sankaran 2016 §4.1."""

    def __init__(self, *, size: int, vocabulary_size: int, word_size: int):
        super().__init__(size=size)
        self.embedding = nn.Embedding(vocabulary_size, size)
        self.recurrent = nn.Linear(size, 3 * size, bias=False)
        self.alignment = nn.Linear(1, 3 * size, bias=False)
        self.word = nn.Linear(word_size, 3 * size, bias=False)

    def bind(self, source: Encoded) -> tuple[Tree, Waiting]:
        return (), Waiting(self.embedding(source.words), ())

    def before(self, word: Word, state: Waiting) -> tuple[Covered, Waiting]:
        if isinstance(state.alignment, Tensor):
            inputs = self.alignment(state.alignment[:, :, None]) + self.word(word)[:, None]
            state = Waiting(_gru_everywhere(inputs, self.recurrent(state.covered), state.covered), ())
        return state.covered, state

    def after(self, alignment: Alignment, query: Query, state: Waiting, projected: Tree, bound: Tree) -> Waiting:
        return Waiting(state.covered, alignment)

    def trace(self, state: Waiting, bound: Tree) -> dict[str, Tensor]:
        return {"coverage": state.covered}


def _gru_everywhere(inputs: Tensor, recurrent: Tensor, covered: Covered) -> Covered:
    """One step of a GRU at every source position."""
    flat = gru(inputs.flatten(0, 1), recurrent.flatten(0, 1), covered.flatten(0, 1))
    return flat.unflatten(0, covered.shape[:2])
