"""A decoder with 8-bit integer products: 1.6 to 1.9 times as fast on a CPU, with slightly different results.

Weights are rounded once, to 255 steps per row. Activations are rounded at every product: to 255 steps per batch, or to
127 on older processors, whose sums could overflow. The encoder is not changed. The kernels are torch's own
(`torch.ops.quantized`). Their successor, torchao, is fast on a CPU only where it may compile.
"""

import warnings

import torch
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.output import Output
from nmt.model.translator import Translator
from nmt.system.hardware import has_exact_int8_sums


class Int8Linear(nn.Linear):
    """A linear layer with 8-bit integer products; its attributes are those of the exact layer."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight, self.bias = nn.Parameter(weight), None if bias is None else nn.Parameter(bias)
        self.reduced = not has_exact_int8_sums()
        steps = (weight.detach().abs().amax(1) / 127).clamp(min=1e-12).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # because torch announces that these kernels will move to another package
            rounded = torch.quantize_per_channel(weight.detach(), steps, torch.zeros_like(steps).long(), 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach())

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the product in floating point."""
        return torch.ops.quantized.linear_dynamic(vectors.contiguous(), self.packed, self.reduced)


class Int8Output(Output):
    """An output layer with 8-bit logits over the whole vocabulary; the loss and candidate lists stay exact."""

    def __init__(self, output: Output):
        nn.Module.__init__(self)
        self.weight, self.bias, self.sparse = output.weight, output.bias, output.sparse
        self.rounded = Int8Linear(output.weight, output.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the logits."""
        return self.rounded(vectors)


def quantize_decoder(model: Translator) -> Translator:
    """Quantize decoder and output layer in place; afterwards the model can only translate, on this machine's CPU."""
    if torch.backends.quantized.engine == "none":
        raise ConfigurationError("int8=true: this build of torch has no 8-bit products here. Fix: int8=false")
    _quantize_linear_layers(model.decoder)
    model.output = Int8Output(model.output)
    return model


def _quantize_linear_layers(module: nn.Module) -> None:
    for name, part in module.named_children():
        if type(part) is nn.Linear and part.in_features and part.out_features > 1:
            setattr(module, name, Int8Linear(part.weight, part.bias))
        else:
            _quantize_linear_layers(part)
