"""Where parameters start. Papers differ, so each kind of parameter gets an initialiser of its own from the config."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Initializer = Callable[[Tensor], object]


class Initialization:
    """Fills a model by kinds, told apart by name and shape: embeddings, recurrent matrices (one block a gate), other
    matrices, those of the attention, v of energies (`energy`), and `bias`. Any other vector or number (a gain, a
    temperature) starts where its module put it."""

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
        for name, parameter in model.named_parameters():
            if parameter.numel():  # a context of size 0 leaves empty matrices
                self._fill(name, parameter)

    def _fill(self, name: str, parameter: Tensor) -> None:
        own = name.split(".")[-1]
        if own == "energy":
            self.energy(parameter)
        elif own.startswith("bias"):
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
