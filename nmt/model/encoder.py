"""Encoders: from embedded source words to annotations h_1 … h_J, in the original left-to-right order."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.kernels.packed_rnn import pack, run_packed, unpack


class EncodedSource(NamedTuple):
    """The encoder's output for a batch of sentences."""

    annotations: Float[Tensor, "batch source annotation"]
    mask: Bool[Tensor, "batch source"]  # True at real positions
    words: Int[Tensor, "batch source"]
    last_hidden: Float[Tensor, "layers batch annotation"]  # states after each direction's last word
    last_cell: Float[Tensor, "layers batch annotation"]  # zeros for a GRU

    def mean_annotation(self) -> Float[Tensor, "batch annotation"]:
        """Return Σ_j h_j / J over real positions."""
        weights = self.mask / self.mask.sum(1, keepdim=True)
        return torch.bmm(weights[:, None].to(self.annotations.dtype), self.annotations)[:, 0]


class Encoder(nn.Module):
    """A stack of recurrent layers.

    Args:
        word_size: size of a word embedding.
        annotation_size: size of h_j, of both directions together.
        layers: number of layers.
        bidirectional: also read the source from right to left.
        reverse: read the source from right to left only, as Luong 2015 §4.2 does.
        dropout: on the input of each layer above the first, never on the recurrence (Zaremba 2015).
        annotation_dropout: on the annotations h_j.
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
        if bidirectional and reverse:
            raise ConfigurationError(
                "encoder.reverse=true: this encoder reads both ways. Fix: encoder=lstm, or leave it out"
            )
        if bidirectional and annotation_size % 2:
            raise ConfigurationError(
                f"encoder.annotation_size={annotation_size}: must be even, because each direction has half of it"
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
    ) -> EncodedSource:
        """Return the annotations; `lengths` is on the CPU, because packing needs it there."""
        positions = torch.arange(words.shape[1], device=words.device)
        count = lengths.to(words.device, non_blocking=True)[:, None]
        mask = positions < count
        if self.reverse:
            mirrored = (count - 1 - positions).clamp(min=0)
            embedded = embedded.take_along_dim(mirrored[:, :, None], 1)
        packed, places = pack(embedded, lengths)
        packed, last = run_packed(self.recurrence, packed)
        annotations = unpack(packed, places, words.shape)
        if self.reverse:
            annotations = annotations.take_along_dim(mirrored[:, :, None], 1)
        hidden, cell = last if len(last) == 2 else (last[0], torch.zeros_like(last[0]))
        return EncodedSource(
            self.annotation_dropout(annotations),
            mask,
            words,
            self._join_directions(hidden),
            self._join_directions(cell),
        )

    def _join_directions(self, last: Tensor) -> Tensor:
        """Reshape (layers * directions, B, size) to (layers, B, annotation)."""
        by_layer = last.unflatten(0, (self.layers, self.directions))
        return by_layer.transpose(1, 2).flatten(2)


class GRUEncoder(Encoder):
    """The encoder of Bahdanau 2015 with one bidirectional layer: h_j = [forward; backward]."""

    cell = nn.GRU


class LSTMEncoder(Encoder):
    """The encoder of Luong 2015 with stacked unidirectional layers; bidirectional is for comparison."""

    cell = nn.LSTM
