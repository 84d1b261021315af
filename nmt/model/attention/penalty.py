"""Penalties on the attention of a sentence: terms that training adds to the loss of the words.

Each gets the trace of all steps and the places that are not padding, and returns its term, summed over the batch.
`needs` names the values of the trace that only some coverages give. Links are given alignments of the training text.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError

Trace = dict[str, Tensor]
Unpadded = Bool[Tensor, "target batch source"]  # steps and positions that are not padding
Links = Float[Tensor, "target batch source"]  # given alignments, 1 at a link


@runtime_checkable
class Penalty(Protocol):
    """The interface of a penalty."""

    needs: tuple[str, ...]
    needs_links: bool

    def __call__(self, trace: Trace, unpadded: Unpadded, links: Links | None) -> Float[Tensor, ""]:
        """Return the term of a batch."""


class WeightedPenalty(nn.Module):
    """A penalty with a weight λ."""

    needs: tuple[str, ...] = ()
    needs_links = False

    def __init__(self, *, weight: float):
        super().__init__()
        if weight < 0:
            raise ConfigurationError(f"attention.penalty.weight={weight}: must be at least 0")
        self.weight = weight


class DoublyStochastic(WeightedPenalty):
    """λ Σ_j (1 − Σ_i α_ij)²: each source word gets an attention of 1; Xu 2015, which Sankaran 2016 §5 tried."""

    def forward(self, trace: Trace, unpadded: Unpadded, links: Links | None) -> Float[Tensor, ""]:
        """Return the term of a batch."""
        received = (trace["alignment"] * unpadded).sum(0)  # Σ_i α_ij
        return self.weight * ((1 - received) ** 2 * unpadded.any(0)).sum()


class FertilityObjective(WeightedPenalty):
    """λ Σ_j (Φ_j − Σ_i α_ij)²: each source word gets an attention of its fertility Φ_j; Tu 2016 §4."""

    needs = ("fertility",)

    def forward(self, trace: Trace, unpadded: Unpadded, links: Links | None) -> Float[Tensor, ""]:
        """Return the term of a batch."""
        received = (trace["alignment"] * unpadded).sum(0)  # Σ_i α_ij
        return self.weight * ((trace["fertility"][0] - received) ** 2 * unpadded.any(0)).sum()


class CoverageLoss(WeightedPenalty):
    """λ Σ_i Σ_j min(α_ij, Σ_{k<i} α_kj): attention does not return to the same source word; See 2017 eq. 12."""

    def forward(self, trace: Trace, unpadded: Unpadded, links: Links | None) -> Float[Tensor, ""]:
        """Return the term of a batch."""
        alignment = trace["alignment"] * unpadded
        before = alignment.cumsum(0) - alignment  # Σ_{k<i} α_kj
        return self.weight * torch.minimum(alignment, before).sum()


class GuidedAttention(WeightedPenalty):
    """−λ Σ_i Σ_j A_ij log α_ij, where A are given links: attention follows them; Chen 2016, Mi 2016, Liu 2016.

    The links of a target word have the sum 1 in A. A target word without a link adds nothing. Text without
    given links, such as the validation text, has no such term.
    """

    needs_links = True

    def forward(self, trace: Trace, unpadded: Unpadded, links: Links | None) -> Float[Tensor, ""]:
        """Return the term of a batch."""
        if links is None:
            return trace["alignment"].new_zeros(())
        shares = links / links.sum(2, keepdim=True).clamp(min=1)  # A_ij
        # the smallest number, because a window gives weights of 0
        alignment = trace["alignment"].clamp(min=torch.finfo(trace["alignment"].dtype).tiny)
        return -self.weight * (shares * alignment.log() * unpadded).sum()
