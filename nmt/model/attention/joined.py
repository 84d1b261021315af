"""The attention a decoder sees: bind(source) once a sentence, then read at every step, then write.

    read:   e_ij = score(q, h_j);  α_i = softmax over the real positions;  c_i = Σ_j α_ij h_j
    write:  nothing here; an attention that rewrites the source does it in `write`

`state` is what changes while decoding (first dimension: hypotheses), `bound` what is fixed for a sentence (first
dimension: sentences). All beams of a sentence read the same bound tensors, which are never copied for them.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.attention.score import Score
from nmt.model.encoder import Encoded
from nmt.model.tree import Tree


class Read(NamedTuple):
    """What one look at the source gives."""

    context: Float[Tensor, "hypothesis context"]
    alignment: Float[Tensor, "hypothesis source"]
    state: Tree
    trace: dict[str, Tensor]  # what plots and analyses may want to see, by name


@runtime_checkable
class Attends(Protocol):
    """What a decoder needs of an attention."""

    context_size: int

    def bind(self, source: Encoded) -> tuple[Tree, Tree]: ...

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> Read: ...

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree: ...


class Bound(NamedTuple):
    annotations: Float[Tensor, "batch source annotation"]
    keys: Tensor
    padding: Float[Tensor, "batch 1 source"]  # 0 at real positions, -inf at padding: added to energies


class Attention(nn.Module):
    """Global attention with any score."""

    def __init__(self, *, context_size: int, score: Score):
        super().__init__()
        self.context_size = context_size
        self.score = score

    def bind(self, source: Encoded) -> tuple[Bound, Tree]:
        padding = torch.zeros_like(source.mask, dtype=torch.float32).masked_fill_(~source.mask, -torch.inf)
        return Bound(source.annotations, self.score.bind(source.annotations), padding[:, None]), ()

    def read(
        self,
        query: Float[Tensor, "hypothesis query"],
        word: Float[Tensor, "hypothesis word"],
        state: Tree,
        bound: Bound,
    ) -> Read:
        queries = query.unflatten(0, (bound.keys.shape[0], -1))  # (B, beams, query)
        energies = self.score.energies(queries, bound.keys) + bound.padding
        alignment = torch.softmax(energies, dim=2)
        context = torch.bmm(alignment.to(bound.annotations.dtype), bound.annotations)
        return Read(context.flatten(0, 1), alignment.flatten(0, 1), state, {})

    def write(self, hidden: Float[Tensor, "hypothesis hidden"], state: Tree, bound: Bound) -> Tree:
        return state


class NoAttention(nn.Module):
    """A decoder that only has its first state to go by (Sutskever 2014; Luong 2015 Table 1, `Base`)."""

    def __init__(self, *, context_size: int = 0):
        super().__init__()
        self.context_size = context_size

    def bind(self, source: Encoded) -> tuple[Tree, Tree]:
        return (source.mask,), ()

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> Read:
        (mask,) = bound
        beams = query.shape[0] // mask.shape[0]
        nowhere = query.new_zeros(mask.shape[0], beams, mask.shape[1]).flatten(0, 1)
        return Read(query[:, : self.context_size], nowhere, state, {})

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree:
        return state
