"""The output layer: log p(y) = log softmax(W x + b) over the vocabulary, and its loss. It runs after the loop."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.kernels.aligned_logits import aligned_linear
from nmt.model.kernels.chunked_loss import chunked_cross_entropy


class Loss(NamedTuple):
    """Sums over the words of a batch, in nats."""

    objective: Float[Tensor, ""]  # the minimized value, with label smoothing and penalties
    negative_log_likelihood: Float[Tensor, ""]  # without them; it has no gradient
    penalty: Float[Tensor, ""] | None = None  # the part of the objective that is the attention's penalty


class Output(nn.Module):
    """Logits W x + b; W may be the target embedding (tied weights), and Luong 2015 has no b."""

    def __init__(self, *, input_size: int, vocabulary_size: int, bias: bool, sparse: bool = False):
        super().__init__()
        self.sparse = sparse
        self.weight = nn.Parameter(torch.empty(vocabulary_size, input_size))
        self.bias = nn.Parameter(torch.empty(vocabulary_size)) if bias else None

    def forward(self, vectors: Float[Tensor, "*steps output"]) -> Float[Tensor, "*steps vocabulary"]:
        """Return the logits of all words."""
        return aligned_linear(vectors, self.weight, self.bias)

    def rows(self, words: Int[Tensor, " candidates"]) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias of these words; in a sparse layer, gradients of other rows do not exist."""
        weight = functional.embedding(words, self.weight, sparse=self.sparse)
        return weight, None if self.bias is None else self.bias.index_select(0, words)

    def loss(
        self,
        vectors: Float[Tensor, "words output"],
        targets: Int[Tensor, " words"],
        smoothing: float = 0.0,
        candidates: Int[Tensor, " candidates"] | None = None,
    ) -> Loss:
        """Return the loss of the target words.

        Args:
            vectors: x, one row a word.
            targets: the correct words.
            smoothing: ε of label smoothing.
            candidates: words that the softmax is limited to (Jean 2015), ascending; they contain all targets.
        """
        weight, bias = self.weight, self.bias
        if candidates is not None:
            targets = torch.searchsorted(candidates, targets)
            weight, bias = self.rows(candidates)
        return Loss(*chunked_cross_entropy(vectors, weight, bias, targets, smoothing))
