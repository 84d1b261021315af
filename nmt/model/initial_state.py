"""The decoder's first state, made from the encoded source (models differ only in what they look at)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.encoder import Encoded


class FromLast(nn.Module):
    """s_0 = tanh(W h⃖_1 + b): where the (backward) encoder ended; Bahdanau 2015 §A.2.2, GroundHog."""

    def __init__(self, *, annotation_size: int, bidirectional: bool, hidden_size: int):
        super().__init__()
        self.read_size = annotation_size // 2 if bidirectional else annotation_size
        self.projection = nn.Linear(self.read_size, hidden_size)

    def forward(self, source: Encoded) -> Float[Tensor, "batch hidden"]:
        return torch.tanh(self.projection(source.last_hidden[-1, :, -self.read_size :]))


class FromMean(nn.Module):
    """s_0 = tanh(W · mean_j h_j + b); dl4mt."""

    def __init__(self, *, annotation_size: int, hidden_size: int):
        super().__init__()
        self.projection = nn.Linear(annotation_size, hidden_size)

    def forward(self, source: Encoded) -> Float[Tensor, "batch hidden"]:
        return torch.tanh(self.projection(source.mean()))


class Copied(nn.Module):
    """(h_0, c_0) of each decoder layer = the last of the same encoder layer; Luong 2015 §3."""

    def __init__(self, *, annotation_size: int, encoder_layers: int, hidden_size: int, layers: int):
        super().__init__()
        if (encoder_layers, annotation_size) != (layers, hidden_size):
            raise ConfigurationError(
                f"decoder.initial copies the encoder's last states, {encoder_layers} × {annotation_size}, but the "
                f"decoder has {layers} × {hidden_size}: set decoder.layers={encoder_layers} "
                f"decoder.hidden_size={annotation_size}, or choose another encoder (encoder=lstm)"
            )

    def forward(self, source: Encoded) -> tuple[tuple[Tensor, Tensor], ...]:
        return tuple(zip(source.last_hidden.unbind(0), source.last_cell.unbind(0), strict=True))
