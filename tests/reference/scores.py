"""Energies e_ij = score(q_i, h_j) of one query and one annotation.

All scores take (query, annotation, j, coverage), and their weights as keywords. `attention.Attention` gets a score with
bound weights: functools.partial(additive, v=…, W=…, U=…).

`coverage` is C_{i−1,j}, or None. It enters the tanh by the matrix V; without a tanh it is added by the vector w.
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
    """Return v · tanh(W q + U h_j + b) + c (Bahdanau 2015); dl4mt has the biases b and c."""
    inner = affine(W, query, b) + U @ annotation
    if coverage is not None:
        inner = inner + V @ coverage  # Tu 2016 §3.2: v · tanh(W t_{i−1} + U h_j + V C_{i−1,j})
    energy = v @ torch.tanh(inner)  # Tu 2016 eq. 5: v · tanh(W q + U h_j)
    return energy if c is None else energy + c


def dot(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, w: Tensor | None = None
) -> Tensor:
    """Return q · h_j (Luong 2015 eq. 8)."""
    energy = query @ annotation  # q · h_j
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def general(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, W: Tensor, w: Tensor | None = None
) -> Tensor:
    """Return q · W h_j (Luong 2015 eq. 8)."""
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
    """Return v · tanh(W [q; h_j]) (Luong 2015 eq. 8, with a tanh and v: mechanisms.md)."""
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
    """Return v · tanh(h_j + W q), the concat score of Luong's code (Luong 2015, footnote 15)."""
    inner = annotation + W @ query
    if coverage is not None:
        inner = inner + V @ coverage
    return v @ torch.tanh(inner)  # v · tanh(h_j + W q)


def location(
    query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, W_a: Tensor, w: Tensor | None = None
) -> Tensor:
    """Return log a_j of a = softmax(W_a q) over all rows (Luong 2015 eq. 9), or −inf beyond the last row.

    All alignment vectors are of the same length, and a short sentence uses their top part (footnote 6).
    """
    if j > W_a.shape[0]:
        return query.new_tensor(float("-inf"))
    total = query.new_zeros(())
    for row in W_a:
        total = total + torch.exp(row @ query)
    energy = torch.log(torch.exp(W_a[j - 1] @ query) / total)
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def none(query: Tensor, annotation: Tensor, j: int, coverage: Tensor | None = None, *, w: Tensor | None = None):
    """Return 0: the window gives the weights (Graves 2013)."""
    energy = query.new_zeros(())
    return energy if coverage is None else energy + coverage_term(coverage, w=w)


def coverage_term(coverage: Tensor, *, w: Tensor) -> Tensor:
    """Return the term that a coverage adds to a score without tanh (no paper combines them)."""
    return w @ coverage  # w · C_{i−1,j}
