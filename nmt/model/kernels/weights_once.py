"""Linear layers in a loop under autocast: cast each weight once, and compute its gradient by one product at the end.

Lightning's autocast casts every weight again at every step, and each step adds its own product to the gradient.
The loop's modules do not know: for its time, the `forward` of every linear layer is another.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import linear

Tape = list[tuple[Tensor, Tensor]]  # the input of each product, and the gradient of its result


class _Cast(Function):
    """Return weight and bias in another type; the gradients come from the tape."""

    @staticmethod
    def forward(context: Any, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, tape: Tape) -> tuple:
        context.set_materialize_grads(False)  # because no product returns a gradient of the weight
        context.tape, context.dtype, context.has_bias = tape, weight.dtype, bias is not None
        return weight.to(dtype, copy=True), None if bias is None else bias.to(dtype, copy=True)

    @staticmethod
    def backward(context: Any, *_: None) -> tuple:
        if not context.tape:
            return None, None, None, None
        inputs, gradients = (torch.cat(rows) for rows in zip(*context.tape, strict=True))
        context.tape.clear()
        weight = (gradients.t() @ inputs).to(context.dtype)  # Σ_i g_i x_iᵀ
        return weight, gradients.sum(0, dtype=context.dtype) if context.has_bias else None, None, None


class _Product(Function):
    """W x + b; the backward pass leaves the gradients of W and b to the tape."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, tape: Tape) -> Tensor:
        converted = inputs.to(weight.dtype)
        context.save_for_backward(converted, weight)
        context.tape, context.dtype = tape, inputs.dtype
        return linear(converted, weight, bias)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple:
        inputs, weight = context.saved_tensors
        context.tape.append((inputs.flatten(0, -2), gradient.flatten(0, -2)))
        return (gradient @ weight).to(context.dtype) if context.needs_input_grad[0] else None, None, None, None


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the type in which autocast computes products on a device; None without autocast."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


@contextmanager
def cast_weights_once(loop: nn.Module, dtype: torch.dtype | None) -> Iterator[None]:
    """Let the linear layers of a loop compute in `dtype` from weights that are cast once; None changes nothing."""
    layers = [part for part in loop.modules() if type(part) is nn.Linear and part.weight.numel()]
    for layer in layers if dtype else ():
        layer.forward = _make_forward(layer, dtype)
    try:
        yield
    finally:
        for layer in layers if dtype else ():
            del layer.forward


def _make_forward(layer: nn.Linear, dtype: torch.dtype):
    tape: Tape = []
    cast: list[tuple[Tensor, Tensor | None]] = []

    def forward(inputs: Tensor) -> Tensor:
        if not cast:
            cast.append(_Cast.apply(layer.weight, layer.bias, dtype, tape))
        return _Product.apply(inputs, *cast[0], tape)

    return forward
