"""Interactive attention: after each step the decoder writes into the source it reads; Meng 2016 §3.1.

    F_i = σ(W_F s_i),  U_i = σ(W_U s_i);   h_j ← h_j ⊙ (1 − w_ij F_i) + w_ij U_i        (eq. 12–13)

w are the weights the step read with (`shared: true`, the paper's choice), or those of a score of their own, asked
with s_i. The annotations become part of the state; the original ones are not kept.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.attention.score import Score
from nmt.model.gated_write import erase_and_add

Annotations = Float[Tensor, "hypothesis source annotation"]
Weights = Float[Tensor, "hypothesis source"]


@runtime_checkable
class Writing(Protocol):
    """What an attention needs of a writing: the annotations of the next step."""

    shared: bool

    def __call__(
        self, hidden: Float[Tensor, "hypothesis hidden"], annotations: Annotations, read: Weights, padding: Weights
    ) -> Annotations: ...


class Interactive(nn.Module):
    def __init__(self, *, annotation_size: int, hidden_size: int, shared: bool, score: Score):
        super().__init__()
        self.shared = shared
        self.forget = nn.Linear(hidden_size, annotation_size, bias=False)  # W_F
        self.update = nn.Linear(hidden_size, annotation_size, bias=False)  # W_U
        if not shared:
            self.score = score

    def forward(
        self, hidden: Float[Tensor, "hypothesis hidden"], annotations: Annotations, read: Weights, padding: Weights
    ) -> Annotations:
        """`read`: the weights α_i; `padding`: 0 at real positions, −inf elsewhere."""
        weights = read if self.shared else self._own_weights(hidden, annotations, padding)
        forget, update = torch.sigmoid(self.forget(hidden)), torch.sigmoid(self.update(hidden))
        return erase_and_add(annotations.to(forget.dtype), weights, forget, update)

    def _own_weights(self, hidden: Tensor, annotations: Annotations, padding: Weights) -> Weights:
        energies = self.score.energies(hidden[:, None], self.score.bind(annotations))[:, 0]
        return torch.softmax(energies + padding, dim=1)
