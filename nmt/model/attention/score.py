"""Scores: the energy e_ij of a query q and an annotation h_j; Bahdanau 2015 and Luong 2015 §3.1.

`bind` projects the annotations once for a sentence, and `energies` compares the queries of all its beams with them.
A coverage adds a bias: inside the tanh (`bias_size`: its size), or to an energy without tanh (`bias_size` = 1).
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.kernels.additive_energies import additive_energies

Keys = Float[Tensor, "batch source key"]
Queries = Float[Tensor, "batch beam query"]
Energies = Float[Tensor, "batch beam source"]
Bias = Float[Tensor, "batch beam source bias"]


@runtime_checkable
class Score(Protocol):
    """The interface of a score."""

    bias_size: int

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return the keys: the part of the energies that only needs the annotations."""

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return e_ij for each query and each source position."""


class Additive(nn.Module):
    """e_ij = v · tanh(W q + U h_j + b_ij), b_ij = V C_{i-1,j} of a coverage; Bahdanau 2015 §3.1.

    `bias: true` adds biases to W and U, as the code dl4mt does.
    """

    def __init__(self, *, query_size: int, annotation_size: int, attention_size: int, bias: bool = False):
        super().__init__()
        self.bias_size = attention_size
        self.query = nn.Linear(query_size, attention_size, bias=bias)  # W
        self.key = nn.Linear(annotation_size, attention_size, bias=bias)  # U
        self.energy = nn.Parameter(torch.empty(attention_size))  # v

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return U h_j."""
        return self.key(annotations)

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return v · tanh(W q + keys + bias)."""
        return additive_energies(self.energy, self.query(queries), keys, bias)


class Concat(Additive):
    """e_ij = v · tanh(W_q q + W_h h_j); Luong 2015 §3.1, which writes it as one product W [q; h_j].

    `identity_source: true` leaves out W_h, as the paper's code does (footnote 15); the sizes must then be equal.
    """

    def __init__(self, *, query_size: int, annotation_size: int, attention_size: int, identity_source: bool = False):
        if identity_source and attention_size != annotation_size:
            raise ConfigurationError(
                f"attention.score.attention_size={attention_size}: must equal "
                f"encoder.annotation_size={annotation_size}, because attention.score.identity_source=true adds h_j "
                f"itself. Fix: attention.score.attention_size={annotation_size}"
            )
        super().__init__(query_size=query_size, annotation_size=annotation_size, attention_size=attention_size)
        if identity_source:
            self.key = nn.Identity()


class Dot(nn.Module):
    """e_ij = q · h_j; Luong 2015 eq. 8."""

    bias_size = 1

    def __init__(self, *, query_size: int, annotation_size: int):
        super().__init__()
        if query_size != annotation_size:
            raise ConfigurationError(
                f"attention=dot: the query's size {query_size} and the annotation's size {annotation_size} must be "
                "equal. Fix: attention=general, or change decoder.hidden_size or encoder.annotation_size"
            )

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return h_j."""
        return annotations

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return q · h_j."""
        return _add_bias(torch.bmm(queries, keys.transpose(1, 2)), bias)


class General(nn.Module):
    """e_ij = q · W h_j; Luong 2015 eq. 8.

    `scaled: true` divides by √n, where n is the size of q, as Vaswani 2017 §3.2.1 does.
    Without it, attention trained with Adam was nearly hard after two epochs (docs/mechanisms.md).
    """

    bias_size = 1

    def __init__(self, *, query_size: int, annotation_size: int, scaled: bool = False):
        super().__init__()
        self.scale = query_size**-0.5 if scaled else 1.0
        self.key = nn.Linear(annotation_size, query_size, bias=False)  # W

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return W h_j, or W h_j / √n."""
        return self.scale * self.key(annotations)

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return q · keys."""
        return _add_bias(torch.bmm(queries, keys.transpose(1, 2)), bias)


class Location(nn.Module):
    """e_ij = log a_ij, where a_i = softmax(W_a q) over all rows of W_a; Luong 2015 eq. 9.

    A sentence of J words uses the weights of the first J rows (footnote 6). `weights: exponential` keeps them as they
    are, as the paper does; a softmax of these energies makes their sum 1. Words beyond the last row get no attention.
    Row 1 is the first word's. In nmt.hybrid the last row is, because it reverses a source and pads its beginning.
    """

    bias_size = 1
    at_most_zero = True  # no energy is above 0, without a bias

    def __init__(self, *, query_size: int, positions: int):
        super().__init__()
        if positions < 1:
            raise ConfigurationError(f"attention.score.positions={positions}: must be at least 1")
        self.query = nn.Linear(query_size, positions, bias=False)  # W_a

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return the annotations; only their number is used."""
        return annotations

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return log softmax(W_a q) of the first J rows, and −inf beyond the last row."""
        rows = self.query(queries)
        logarithms = rows.to(torch.promote_types(rows.dtype, torch.float32)).log_softmax(2)
        missing = max(keys.shape[1] - rows.shape[2], 0)
        energies = nn.functional.pad(logarithms, (0, missing), value=-torch.inf)[:, :, : keys.shape[1]]
        return _add_bias(energies, bias)


class NoScore(nn.Module):
    """e_ij = 0, for a window that gives the weights alone."""

    bias_size = 1
    at_most_zero = True  # no energy is above 0, without a bias

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        """Return the annotations; only their number is used."""
        return annotations

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        """Return 0."""
        return _add_bias(queries.new_zeros(*queries.shape[:2], keys.shape[1]), bias)


def _add_bias(energies: Energies, bias: Bias | None) -> Energies:
    return energies if bias is None else energies + bias[..., 0]
