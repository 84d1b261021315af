"""Interactive attention: after each step the decoder writes into the annotations; Meng 2016 §3.1.

    F_i = σ(W_F s_i),  U_i = σ(W_U s_i);   h_j ← h_j ⊙ (1 − w_ij F_i) + w_ij U_i        (eq. 12–13)

The annotations become part of the state, and the original ones are not kept.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.attention.score import Score
from nmt.model.attention.weights import Weights
from nmt.model.gated_write import erase_and_add

Annotations = Float[Tensor, "hypothesis source annotation"]
Alignment = Float[Tensor, "hypothesis source"]


@runtime_checkable
class Writing(Protocol):
    """The interface of a writing."""

    shared: bool

    def __call__(
        self,
        hidden: Float[Tensor, "hypothesis hidden"],
        annotations: Annotations,
        alignment: Alignment,
        padding: Alignment,
    ) -> Annotations:
        """Return the annotations of the next step."""


class Interactive(nn.Module):
    """The write of NMT_IA; Meng 2016 §3.1.

    Args:
        annotation_size: size of h_j.
        hidden_size: size of s_i.
        shared: w_ij are the attention weights α_ij (as in the paper); else a second score of h_j and s_i gives them.
        score: that second score; unused if shared.
        weights: from its energies to w_ij; unused if shared.
    """

    def __init__(self, *, annotation_size: int, hidden_size: int, shared: bool, score: Score, weights: Weights):
        super().__init__()
        self.shared = shared
        self.forget = nn.Linear(hidden_size, annotation_size, bias=False)  # W_F
        self.update = nn.Linear(hidden_size, annotation_size, bias=False)  # W_U
        if not shared:
            self.score, self.weights = score, weights

    def forward(
        self,
        hidden: Float[Tensor, "hypothesis hidden"],
        annotations: Annotations,
        alignment: Alignment,
        padding: Alignment,
    ) -> Annotations:
        """Return the annotations of the next step.

        Args:
            hidden: s_i.
            annotations: h_j.
            alignment: α_i of this step.
            padding: 0 at real positions, −inf at padding.
        """
        written = alignment if self.shared else self._write_weights(hidden, annotations, padding)
        forget, update = torch.sigmoid(self.forget(hidden)), torch.sigmoid(self.update(hidden))  # F_i, U_i
        return erase_and_add(annotations.to(forget.dtype), written, forget, update)

    def _write_weights(self, hidden: Tensor, annotations: Annotations, padding: Alignment) -> Alignment:
        energies = self.score.energies(hidden[:, None], self.score.bind(annotations))[:, 0]
        return self.weights(energies + padding)
