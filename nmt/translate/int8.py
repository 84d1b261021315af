"""A decoder whose products are of 8-bit integers: on a CPU 1.6 to 1.8 times as fast, and not quite the same.

Weights are rounded once, to 255 steps for each row; activations at every product, to 127 steps for each batch. Sums are
exact, and the encoder stays as it is. The kernels are torch's own (`torch.ops.quantized`); its successor for them,
torchao, is fast on a CPU only where it may compile.
"""

import warnings

import torch
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.output import Output
from nmt.model.translator import Translator


class Int8Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        steps = (weight.detach().abs().amax(1) / 127).clamp(min=1e-12).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that these kernels are to move to another package some day
            rounded = torch.quantize_per_channel(weight.detach(), steps, torch.zeros_like(steps).long(), 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach())

    def forward(self, vectors: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(vectors.contiguous(), self.packed, True)


class Int8Output(Output):
    """Logits in integers; what is limited to candidates, and a loss, is computed as before."""

    def __init__(self, output: Output):
        nn.Module.__init__(self)
        self.weight, self.bias, self.sparse = output.weight, output.bias, output.sparse
        self.rounded = Int8Linear(output.weight, output.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.rounded(vectors)


def in_int8(model: Translator) -> Translator:
    """The model itself, changed for good: it can only translate on this machine's CPU now."""
    if torch.backends.quantized.engine == "none":
        raise ConfigurationError("int8=true: this build of torch has no 8-bit products for this machine")
    _exchange(model.decoder)
    model.output = Int8Output(model.output)
    return model


def _exchange(module: nn.Module) -> None:
    for name, part in module.named_children():
        if type(part) is nn.Linear and part.in_features and part.out_features > 1:
            setattr(module, name, Int8Linear(part.weight, part.bias))
        else:
            _exchange(part)
