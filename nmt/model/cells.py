"""Updates of GRU and LSTM states in PyTorch's form; the caller computes the matrix products."""

import torch
from jaxtyping import Float
from torch import Tensor


def gru(
    inputs: Float[Tensor, "hypothesis gates"],
    recurrent: Float[Tensor, "hypothesis gates"],
    hidden: Float[Tensor, "hypothesis hidden"],
) -> Float[Tensor, "hypothesis hidden"]:
    """Return z ⊙ s' + (1 − z) ⊙ tanh(x_n + r ⊙ u_n), where r, z = σ(x + u).

    Args:
        inputs: x, x_n, the products of the inputs.
        recurrent: u, u_n, the products of the previous state.
        hidden: s', the previous state.
    """
    # split, because the gradient of a slice is filled to full size: a step 1.01–1.02 ×; with coverage_embedding 1.05 ×
    sizes = (2 * hidden.shape[1], hidden.shape[1])
    x, x_n = inputs.split(sizes, dim=1)
    u, u_n = recurrent.split(sizes, dim=1)
    reset, update = torch.sigmoid(x + u).chunk(2, dim=1)
    candidate = torch.tanh(torch.addcmul(x_n, reset, u_n))
    return torch.lerp(candidate, hidden.to(candidate.dtype), update)


def lstm(
    gates: Float[Tensor, "hypothesis gates"], cell: Float[Tensor, "hypothesis hidden"]
) -> tuple[Float[Tensor, "hypothesis hidden"], Float[Tensor, "hypothesis hidden"]]:
    """Return h = o ⊙ tanh(c) and c = f ⊙ c' + i ⊙ g. i, f and o are σ, and g is tanh of its gate."""
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell
