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
    sizes = (2 * hidden.shape[1], hidden.shape[1])
    x, x_n = inputs.split(sizes, dim=1)  # the gradient of a slice is filled as large as the whole
    u, u_n = recurrent.split(sizes, dim=1)
    reset, update = torch.sigmoid(x + u).chunk(2, dim=1)
    candidate = torch.tanh(torch.addcmul(x_n, reset, u_n))
    return torch.lerp(candidate, hidden.to(candidate.dtype), update)


def lstm(
    gates: Float[Tensor, "hypothesis gates"], cell: Float[Tensor, "hypothesis hidden"]
) -> tuple[Float[Tensor, "hypothesis hidden"], Float[Tensor, "hypothesis hidden"]]:
    """c = f ⊙ c' + i ⊙ g;  h = o ⊙ tanh(c);  i, f, o = σ, g = tanh of their gates."""
    entry, forget, candidate, output = gates.chunk(4, dim=1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
    return torch.sigmoid(output) * torch.tanh(cell), cell
