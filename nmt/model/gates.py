"""The gated updates, in PyTorch's form, with every input's part of the gates already summed."""

import torch
from jaxtyping import Float
from torch import Tensor


def gru(
    inputs: Float[Tensor, "hypothesis gates"],
    recurrent: Float[Tensor, "hypothesis gates"],
    hidden: Float[Tensor, "hypothesis hidden"],
) -> Float[Tensor, "hypothesis hidden"]:
    """s = z ⊙ s' + (1 − z) ⊙ tanh(x_n + r ⊙ u_n);  r, z = σ(x + u); x from the inputs, u from the state s'."""
    size = hidden.shape[1]
    reset_update = torch.sigmoid(inputs[:, : 2 * size] + recurrent[:, : 2 * size])
    reset, update = reset_update.chunk(2, dim=1)
    candidate = torch.tanh(torch.addcmul(inputs[:, 2 * size :], reset, recurrent[:, 2 * size :]))
    return torch.lerp(candidate, hidden.to(candidate.dtype), update)


def lstm(
    gates: Float[Tensor, "hypothesis gates"], cell: Float[Tensor, "hypothesis hidden"]
) -> tuple[Float[Tensor, "hypothesis hidden"], Float[Tensor, "hypothesis hidden"]]:
    """c = f ⊙ c' + i ⊙ g;  h = o ⊙ tanh(c);  i, f, o = σ, g = tanh of their gates."""
    entry, forget, candidate, output = gates.chunk(4, dim=1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
    return torch.sigmoid(output) * torch.tanh(cell), cell
