"""The output layer and its loss: nothing here runs inside the decoding loop.

The loss walks over the words in chunks, and makes a chunk's gradient as soon as its softmax is known: of the
(words, vocabulary) scores no more exists than a chunk.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

CHUNK_ELEMENTS = 2**22  # logits held at once: 16 MiB of float32,
CHUNK_ROWS = 512  # or those of so many words: with fewer, a large vocabulary's weights are read too often;
MOST_ELEMENTS = 2**26  # but no more than these: 256 MiB of float32
ROW_ELEMENTS = 32  # a row of logits takes a multiple of: two cache lines of float32, one of bfloat16


class Loss(NamedTuple):
    """Sums over the words of a batch, in nats."""

    objective: Float[Tensor, ""]  # what is minimised: with label smoothing
    likelihood: Float[Tensor, ""]  # the negative log-likelihood, without


class Output(nn.Module):
    """log p(y) = log softmax(W x + b); W may be the target embedding (tied), b is left out in Luong 2015."""

    def __init__(self, *, input_size: int, vocabulary_size: int, bias: bool, sparse: bool = False):
        super().__init__()
        self.sparse = sparse
        self.weight = nn.Parameter(torch.empty(vocabulary_size, input_size))
        self.bias = nn.Parameter(torch.empty(vocabulary_size)) if bias else None

    def forward(self, vectors: Float[Tensor, "*steps output"]) -> Float[Tensor, "*steps vocabulary"]:
        if torch.is_grad_enabled() or vectors.ndim != 2:
            return functional.linear(vectors, self.weight, self.bias)
        weight = self.weight.to(_autocast_type(vectors))
        return _scores(vectors.to(weight.dtype), weight, self.bias, *_rooms(len(vectors), weight))

    def rows(self, words: Int[Tensor, " candidates"]) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of these words alone; the weight's gradient holds no other rows if the layer is sparse."""
        weight = functional.embedding(words, self.weight, sparse=self.sparse)
        return weight, None if self.bias is None else self.bias.index_select(0, words)

    def loss(
        self,
        vectors: Float[Tensor, "words output"],
        targets: Int[Tensor, " words"],
        smoothing: float = 0.0,
        candidates: Int[Tensor, " candidates"] | None = None,
    ) -> Loss:
        """Label smoothing ε puts (1 − ε) on the word and ε / V on every word of the vocabulary.

        `candidates` (ascending, all targets among them): the softmax is over these words alone (Jean 2015).
        """
        if candidates is None:
            return _loss(vectors, self.weight, self.bias, targets, smoothing)
        places = torch.searchsorted(candidates, targets)
        return _loss(vectors, *self.rows(candidates), places, smoothing)


def _loss(vectors: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Loss:
    """Within an autograd.Function nothing says any more whether a gradient is wanted."""
    wanted = torch.is_grad_enabled()
    return Loss(*_ChunkedLoss.apply(vectors, weight, bias, targets, smoothing, wanted))


class _ChunkedLoss(torch.autograd.Function):
    """−Σ log p(target), with the gradients made on the way: they are linear in the incoming one."""

    @staticmethod
    def forward(ctx, vectors, weight, bias, targets, smoothing, gradient_wanted):
        needs_gradient = gradient_wanted and any(ctx.needs_input_grad)
        compute = _autocast_type(vectors)
        weight_used, vectors_used = weight.to(compute), vectors.to(compute)
        objective, likelihood = vectors.new_zeros((2,), dtype=_at_least_float32(compute)).unbind()
        vector_gradient = torch.empty_like(vectors_used) if needs_gradient else None
        weight_gradient = torch.zeros_like(weight) if needs_gradient else None
        bias_gradient = torch.zeros_like(bias) if needs_gradient and bias is not None else None
        rows = chunk_rows(weight.shape[0])
        room, wide = _rooms(min(rows, len(vectors)), weight_used)
        for start in range(0, len(vectors), rows):
            chunk = slice(start, start + rows)
            logits = _scores(vectors_used[chunk], weight_used, bias, room, wide)
            at_target = logits.gather(1, targets[chunk, None])[:, 0]
            mean = logits.mean(1) if smoothing else 0.0
            probabilities, normalizer = _softmax(logits)
            nats = (normalizer - at_target).sum()
            likelihood = likelihood + nats
            uniform = (normalizer - mean).sum() if smoothing else 0.0
            objective = objective + (1 - smoothing) * nats + smoothing * uniform
            if needs_gradient:
                gradient = _softmax_gradient(probabilities, targets[chunk], smoothing)
                if bias is not None:
                    bias_gradient += gradient.sum(0)
                gradient = _in(room, gradient)
                torch.mm(gradient, weight_used, out=vector_gradient[chunk])
                _accumulate(weight_gradient, gradient, vectors_used[chunk])
        ctx.save_for_backward(vector_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(likelihood)
        ctx.vector_type = vectors.dtype
        return objective, likelihood

    @staticmethod
    def backward(ctx, scale, _):
        vectors, weight, bias = ctx.saved_tensors
        bias = None if bias is None else bias * scale
        return vectors.to(ctx.vector_type) * scale, weight * scale, bias, None, None, None


def chunk_rows(vocabulary_size: int) -> int:
    """How many words' scores are held at once."""
    enough = min(CHUNK_ROWS, MOST_ELEMENTS // vocabulary_size)
    return max(CHUNK_ELEMENTS // vocabulary_size, enough, 1)


def _rooms(rows: int, weight: Tensor) -> tuple[Tensor, Tensor]:
    """For scores of all words: as the product makes them, and in float32 at least; one where these are the same.

    Rows begin where cache lines do: the product is a sixth faster for it.
    """
    kinds = dict.fromkeys((weight.dtype, _at_least_float32(weight.dtype)))
    rooms = [_room(rows, weight, kind) for kind in kinds]
    return rooms[0], rooms[-1]


def _room(rows: int, weight: Tensor, kind: torch.dtype) -> Tensor:
    """Zero between the rows: products of bfloat16 on AMX read on to the end of a tile, and what is no number stays so
    times 0."""
    words = weight.shape[0]
    whole = weight.new_empty(rows, -(-words // ROW_ELEMENTS) * ROW_ELEMENTS, dtype=kind)
    whole[:, words:] = 0
    return whole[:, :words]


def _scores(vectors: Tensor, weight: Tensor, bias: Tensor | None, room: Tensor, wide: Tensor) -> Tensor:
    """W x + b, made in one room, given in another, of float32 at least, where the product is of a lesser type."""
    scores = _in(wide, torch.mm(vectors, weight.t(), out=room[: len(vectors)]))
    return scores if bias is None else scores.add_(bias)


def _in(room: Tensor, rows: Tensor) -> Tensor:
    """The same rows in this room; where they are of its type they need not move."""
    return rows if rows.dtype == room.dtype else room[: len(rows)].copy_(rows)


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's exponentials over their sum, in the place of the logits; and log Σ exp(logits)."""
    most = logits.amax(1, keepdim=True)
    total = logits.sub_(most).exp_().sum(1, keepdim=True)
    return logits.div_(total), (most + total.log())[:, 0]


def _softmax_gradient(probabilities: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """softmax(logits) − the smoothed target distribution, in the place of the former."""
    if smoothing:
        probabilities -= smoothing / probabilities.shape[1]
    rows = torch.arange(targets.shape[0], device=targets.device)
    probabilities[rows, targets] -= 1 - smoothing
    return probabilities


def _accumulate(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += leftᵀ right"""
    if left.dtype == total.dtype:
        total.addmm_(left.t(), right)
    else:
        total += left.t() @ right


def _autocast_type(tensor: Tensor) -> torch.dtype:
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype


def _at_least_float32(kind: torch.dtype) -> torch.dtype:
    return torch.promote_types(kind, torch.float32)
