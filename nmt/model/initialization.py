"""Initial values of the parameters. The papers differ, so each kind of parameter has an initializer in the config."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Initializer = Callable[[Tensor], object]


class Initialization:
    """Initializers of a model's parameters, by kind; name and shape of a parameter decide its kind.

    Args:
        embedding: word embeddings and the output layer.
        recurrent: recurrent matrices; each gate's block is initialized alone.
        matrix: all other matrices.
        attention: matrices of the attention.
        energy: the vector v of an energy v · tanh(…); its parameter is named `energy`.
        bias: biases. Any other vector or number (a gain, a temperature) keeps the value its module gave it.
    """

    def __init__(
        self,
        *,
        embedding: Initializer,
        recurrent: Initializer,
        matrix: Initializer,
        attention: Initializer,
        energy: Initializer,
        bias: Initializer,
    ):
        self.embedding, self.recurrent, self.matrix = embedding, recurrent, matrix
        self.attention, self.energy, self.bias = attention, energy, bias

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> None:
        """Initialize all parameters of a model."""
        for name, parameter in model.named_parameters():
            if parameter.numel():  # matrices of a context of size 0 are empty
                self._initialize(name, parameter)

    def _initialize(self, name: str, parameter: Tensor) -> None:
        attribute = name.split(".")[-1]
        if attribute == "energy":
            self.energy(parameter)
        elif attribute.startswith("bias"):
            self.bias(parameter)
        elif parameter.dim() < 2:
            pass
        elif "embedding" in name or name == "output.weight":
            self.embedding(parameter)
        elif "recurrent" in name or "weight_hh" in name:
            for gate in parameter.split(parameter.shape[1]):
                self.recurrent(gate)
        elif ".attention." in name:
            self.attention(parameter)
        else:
            self.matrix(parameter)


class NoInitialization(Initialization):
    """No initial values: for a model whose weights are read next."""

    def __init__(self):
        """Take no initializers."""

    def __call__(self, model: nn.Module) -> None:
        """Leave all parameters as their modules made them."""
