"""Encoders: embedded source words → annotations h_1..h_J, in the original left-to-right order."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from nmt.errors import ConfigurationError
from nmt.model.packed_rnn import run_packed


class Encoded(NamedTuple):
    """What the encoder hands to the decoder."""

    annotations: Float[Tensor, "batch source annotation"]
    mask: Bool[Tensor, "batch source"]  # True at real positions
    words: Int[Tensor, "batch source"]
    last_hidden: Float[Tensor, "layers batch annotation"]  # each direction's state after its last word
    last_cell: Float[Tensor, "layers batch annotation"]  # zeros where the cell is a GRU

    def mean(self) -> Float[Tensor, "batch annotation"]:
        """Σ_j h_j / J, over real positions."""
        weights = self.mask / self.mask.sum(1, keepdim=True)
        return torch.bmm(weights[:, None].to(self.annotations.dtype), self.annotations)[:, 0]


class Encoder(nn.Module):
    """A stack of recurrent layers; `reverse` reads the source right to left, as Luong 2015 §4.1 does.

    Dropout stands on each layer's input but the first (the embeddings have their own), never on the recurrence
    (Zaremba 2015); `annotation_dropout` on what the attention sees.
    """

    cell: type[nn.GRU] | type[nn.LSTM]

    def __init__(
        self,
        *,
        word_size: int,
        annotation_size: int,
        layers: int,
        bidirectional: bool,
        reverse: bool = False,
        dropout: float = 0.0,
        annotation_dropout: float = 0.0,
    ):
        super().__init__()
        if bidirectional and annotation_size % 2:
            raise ConfigurationError(
                f"encoder.annotation_size={annotation_size} must be even: a bidirectional encoder halves it"
            )
        self.layers, self.reverse = layers, reverse
        self.directions = 2 if bidirectional else 1
        self.recurrence = self.cell(
            word_size,
            annotation_size // self.directions,
            num_layers=layers,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.annotation_dropout = nn.Dropout(annotation_dropout)

    def forward(
        self,
        embedded: Float[Tensor, "batch source word"],
        words: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
    ) -> Encoded:
        """`lengths` stays on the CPU: packing needs it there, and fetching it from a GPU would stall."""
        positions = torch.arange(words.shape[1])
        mask = (positions < lengths[:, None]).to(words.device)
        if self.reverse:
            mirror = (lengths[:, None] - 1 - positions).clamp(min=0).to(words.device)
            embedded = _reorder(embedded, mirror)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        packed, last = self._run(packed)
        annotations, _ = pad_packed_sequence(packed, batch_first=True, total_length=words.shape[1])
        if self.reverse:
            annotations = _reorder(annotations, mirror)
        hidden, cell = last if len(last) == 2 else (last[0], torch.zeros_like(last[0]))
        return Encoded(
            self.annotation_dropout(annotations),
            mask,
            words,
            self._join_directions(hidden),
            self._join_directions(cell),
        )

    def _run(self, packed: PackedSequence) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        if packed.data.device.type == "cpu" and torch.is_grad_enabled():
            return run_packed(self.recurrence, packed)
        annotations, last = self.recurrence(packed)
        return annotations, last if isinstance(last, tuple) else (last,)

    def _join_directions(self, last: Tensor) -> Tensor:
        """(layers * directions, B, size) → (layers, B, annotation)"""
        by_layer = last.unflatten(0, (self.layers, self.directions))
        return by_layer.transpose(1, 2).flatten(2)


class GRUEncoder(Encoder):
    """Bahdanau 2015 with one bidirectional layer: h_j = [forward; backward]."""

    cell = nn.GRU


class LSTMEncoder(Encoder):
    """Luong 2015, stacked and unidirectional; bidirectional for comparison."""

    cell = nn.LSTM


def _reorder(sequence: Tensor, index: Tensor) -> Tensor:
    return sequence.gather(1, index[:, :, None].expand_as(sequence))
