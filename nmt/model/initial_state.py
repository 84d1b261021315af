"""The first decoder state s_0, computed from the encoded source."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.encoder import EncodedSource


class FromLast(nn.Module):
    """s_0 = tanh(W h⃖_1 + b): the last state of the (backward) encoder; Bahdanau 2015 §A.2.2, GroundHog."""

    def __init__(self, *, annotation_size: int, bidirectional: bool, hidden_size: int):
        super().__init__()
        self.input_size = annotation_size // 2 if bidirectional else annotation_size
        self.projection = nn.Linear(self.input_size, hidden_size)

    def forward(self, source: EncodedSource) -> Float[Tensor, "batch hidden"]:
        """Return s_0."""
        return torch.tanh(self.projection(source.last_hidden[-1, :, -self.input_size :]))


class FromMean(nn.Module):
    """s_0 = tanh(W · mean_j h_j + b); dl4mt."""

    def __init__(self, *, annotation_size: int, hidden_size: int):
        super().__init__()
        self.projection = nn.Linear(annotation_size, hidden_size)

    def forward(self, source: EncodedSource) -> Float[Tensor, "batch hidden"]:
        """Return s_0."""
        return torch.tanh(self.projection(source.mean_annotation()))


class EncoderStates(nn.Module):
    """(h_0, c_0) of each decoder layer: the last state of the same encoder layer; Luong 2015 §2."""

    def __init__(self, *, annotation_size: int, encoder_layers: int, hidden_size: int, layers: int):
        super().__init__()
        if (encoder_layers, annotation_size) != (layers, hidden_size):
            raise ConfigurationError(
                f"decoder.initial: the encoder's states are {encoder_layers} × {annotation_size}, but the decoder has "
                f"{layers} × {hidden_size}. Fix: decoder.layers={encoder_layers} "
                f"decoder.hidden_size={annotation_size}, or another encoder (encoder=lstm)"
            )

    def forward(self, source: EncodedSource) -> tuple[tuple[Tensor, Tensor], ...]:
        """Return (h_0, c_0) of each layer, the bottom layer first."""
        return tuple(zip(source.last_hidden.unbind(0), source.last_cell.unbind(0), strict=True))
