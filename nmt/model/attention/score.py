"""Scores: how well the query q fits each source position; Bahdanau 2015 and Luong 2015 §3.1.

A score projects the annotations once a sentence (`bind`), then compares (`energies`) any number of queries a sentence
with them, so that the beams of a sentence share its keys. `bias` is what a coverage wants added: inside the tanh where
there is one (then of `bias_size` = the tanh's size), else to the energy itself (`bias_size` = 1).
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError

Keys = Float[Tensor, "batch source key"]
Queries = Float[Tensor, "batch beam query"]
Energies = Float[Tensor, "batch beam source"]
Bias = Float[Tensor, "batch beam source bias"]


@runtime_checkable
class Score(Protocol):
    """What an attention needs of a score."""

    bias_size: int

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys: ...

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies: ...


class Additive(nn.Module):
    """e_ij = v · tanh(W q + U h_j + V C_{i-1,j}); Bahdanau 2015 §3.1. `bias: true` is dl4mt's form.

    On a CPU tanh x = 2 σ(2x) − 1: the sigmoid takes a fraction of the tanh's time there, and this is where most of a
    step's elements are. In half precision small x would vanish beside σ's ½, and with them v's first gradients.
    """

    def __init__(self, *, query_size: int, annotation_size: int, attention_size: int, bias: bool = False):
        super().__init__()
        self.bias_size = attention_size
        self.query = nn.Linear(query_size, attention_size, bias=bias)  # W
        self.key = nn.Linear(annotation_size, attention_size, bias=bias)  # U
        self.energy = nn.Parameter(torch.empty(attention_size))  # v

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        return self.key(annotations)

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        asked, keys = self.query(queries)[:, :, None], keys[:, None]  # sum: (B, beams, S, attention)
        if not asked.is_cpu or asked.dtype not in (torch.float32, torch.float64):
            inner = asked + keys if bias is None else asked + keys + bias
            return torch.matmul(torch.tanh(inner), self.energy.to(inner.dtype))
        doubled = torch.add(2 * asked, keys, alpha=2)
        if bias is not None:
            doubled = torch.add(doubled, bias, alpha=2)
        return torch.matmul(torch.sigmoid(doubled), 2 * self.energy) - self.energy.sum()


class Concat(Additive):
    """e_ij = v · tanh(W_q q + W_h h_j); Luong 2015 §3.1, where W [q; h_j] is written as one product.

    `identity_source: true` leaves W_h out, as the paper's own code did (footnote 15); sizes must then agree.
    """

    def __init__(self, *, query_size: int, annotation_size: int, attention_size: int, identity_source: bool = False):
        if identity_source and attention_size != annotation_size:
            raise ConfigurationError(
                f"attention.score.identity_source adds h_j itself: attention.score.attention_size={attention_size} "
                f"must equal encoder.annotation_size={annotation_size}"
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
                f"attention=dot multiplies the query with the annotations: their sizes {query_size} and "
                f"{annotation_size} must be equal; use attention=general, or change decoder.hidden_size or "
                "encoder.annotation_size"
            )

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        return annotations

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        return _with_bias(torch.bmm(queries, keys.transpose(1, 2)), bias)


class General(nn.Module):
    """e_ij = q · W h_j; Luong 2015 eq. 8. W h_j is projected once a sentence.

    `scaled: true` divides by √n, n the size of q, as Vaswani 2017 §3.2.1 does: one step of Adam moves all n² weights
    by as much, and with them an energy so far that attention is nearly hard within two epochs (docs/mechanisms.md).
    """

    bias_size = 1

    def __init__(self, *, query_size: int, annotation_size: int, scaled: bool = False):
        super().__init__()
        self.scale = query_size**-0.5 if scaled else 1.0
        self.key = nn.Linear(annotation_size, query_size, bias=False)

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        return self.scale * self.key(annotations)

    energies = Dot.energies


class Location(nn.Module):
    """e_ij = row j of W_a q; Luong 2015 eq. 9. Rows beyond the sentence are unused, words beyond the rows are ignored
    (footnote 6)."""

    bias_size = 1

    def __init__(self, *, query_size: int, positions: int):
        super().__init__()
        if positions < 1:
            raise ConfigurationError(f"attention.score.positions={positions}: must be at least 1")
        self.query = nn.Linear(query_size, positions, bias=False)

    def bind(self, annotations: Float[Tensor, "batch source annotation"]) -> Keys:
        return annotations  # only their number matters

    def energies(self, queries: Queries, keys: Keys, bias: Bias | None = None) -> Energies:
        rows = self.query(queries)
        beyond = keys.shape[1] - rows.shape[2]
        energies = nn.functional.pad(rows, (0, beyond), value=-torch.inf) if beyond > 0 else rows[:, :, : keys.shape[1]]
        return _with_bias(energies, bias)


def _with_bias(energies: Energies, bias: Bias | None) -> Energies:
    return energies if bias is None else energies + bias[..., 0]
