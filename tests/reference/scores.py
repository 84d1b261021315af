"""Energies e_ij = score(q_i, h_j) of one query and one annotation (models.md §2, Score).

All share one call, (query, annotation, j, coverage), so that functools.partial(additive, v=…, W=…, U=…) is what
`attention.Attention` asks for. j counts from 1. `coverage` is C_{i−1,j} or None; given one, a score needs its weight:
the matrix V where there is a tanh to enter, the vector w where there is none.
"""

import torch
from torch import Tensor

from .cells import affine


def additive(
    query: Tensor,
    annotation: Tensor,
    j: int,
    coverage: Tensor | None = None,
    *,
    v: Tensor,
    W: Tensor,
    U: Tensor,
    b: Tensor | None = None,
    c: Tensor | None = None,
    V: Tensor | None = None,
) -> Tensor:
    """Bahdanau's score. dl4mt's two biases are b, inside the tanh, and the scalar c, outside."""
    inner = affine(W, query, b) + U @ annotation
    if coverage is not None:
        inner = inner + V @ coverage  # Tu 2016 §3.2: v · tanh(W t_{i−1} + U h_j + V C_{i−1,j})
    energy = v @ torch.tanh(inner)  # Tu 2016 eq. 5: v · tanh(W q + U h_j)
    return energy if c is None else energy + c


def dot(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, w: Tensor | None = None
) -> Tensor:
    """Luong 2015 eq. 8, dot."""
    energy = query @ annotation  # q · h_j
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def general(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, W: Tensor, w: Tensor | None = None
) -> Tensor:
    """Luong 2015 eq. 8, general."""
    energy = query @ (W @ annotation)  # q · W h_j
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def concat(
    query: Tensor,
    annotation: Tensor,
    j: int,
    coverage: Tensor | None = None,
    *,
    v: Tensor,
    W: Tensor,
    V: Tensor | None = None,
) -> Tensor:
    """Luong 2015 eq. 8, concat, with the tanh and v of models.md §2."""
    inner = W @ torch.cat([query, annotation])
    if coverage is not None:
        inner = inner + V @ coverage
    return v @ torch.tanh(inner)  # v · tanh(W [q; h_j])


def concat_code(
    query: Tensor,
    annotation: Tensor,
    j: int,
    coverage: Tensor | None = None,
    *,
    v: Tensor,
    W: Tensor,
    V: Tensor | None = None,
) -> Tensor:
    """Concat as Luong's code has it: the source side is the identity (Luong 2015, footnote 15)."""
    inner = annotation + W @ query
    if coverage is not None:
        inner = inner + V @ coverage
    return v @ torch.tanh(inner)  # v · tanh(h_j + W q)


def location(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, W_a: Tensor, w: Tensor | None = None
) -> Tensor:
    """Luong 2015 eq. 9; positions beyond W_a's rows get the energy −inf, so the weight 0 (footnote 6)."""
    if j > W_a.shape[0]:
        return query.new_tensor(float("-inf"))
    energy = W_a[j - 1] @ query  # row j of W_a q
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def coverage_term(coverage: Tensor, *, w: Tensor) -> Tensor:
    """What a coverage adds to a score that has no tanh to enter (ours, models.md §2)."""
    return w @ coverage  # w · C_{i−1,j}
