"""Adam for dense and sparse gradients together."""

import torch
from torch import nn
from torch.optim import Adam


class SparseAdam(Adam):
    """Adam that updates only the rows present in a sparse gradient, and only the moments of these rows.

    torch.optim.SparseAdam does the same for them, but refuses dense gradients.
    """

    def __init__(self, parameters, **settings):
        super().__init__(parameters, **settings)
        for name in ("weight_decay", "amsgrad", "maximize", "fused"):
            if self.defaults[name]:
                raise ValueError(f"{name}={self.defaults[name]}: not made for sparse gradients. Fix: leave it out")

    @torch.no_grad()
    def step(self, closure=None):
        """Update all parameters; return what the closure returns."""
        loss = torch.enable_grad()(closure)() if closure else None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._update_rows(parameter, group)
                    parameter.grad = None
        super().step()
        return loss

    def _update_rows(self, parameter: nn.Parameter, group: dict) -> None:
        """Apply m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  w ← w − η √(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε)."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        gradient = parameter.grad.coalesce()
        rows, gradient = gradient.indices()[0], gradient.values()
        (first, second), step = group["betas"], state["step"].item()
        mean = state["exp_avg"].index_select(0, rows).lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].index_select(0, rows).lerp_(gradient * gradient, 1 - second)
        state["exp_avg"].index_copy_(0, rows, mean)
        state["exp_avg_sq"].index_copy_(0, rows, square)
        rate = group["lr"] * (1 - second**step) ** 0.5 / (1 - first**step)
        parameter.index_add_(0, rows, mean / square.sqrt_().add_(group["eps"]), alpha=-rate)
