"""The erase-and-add write of neural Turing machines, for the buffer memory and interactive attention."""

import torch
from jaxtyping import Float
from torch import Tensor


def erase_and_add(
    cells: Float[Tensor, "hypothesis cell size"],
    weights: Float[Tensor, "hypothesis cell"],
    erase: Float[Tensor, "hypothesis size"],
    add: Float[Tensor, "hypothesis size"],
) -> Float[Tensor, "hypothesis cell size"]:
    """Return m_k ⊙ (1 − w_k · erase) + w_k · add for each cell m_k."""
    # m_k + w_k (add − m_k ⊙ erase), because the backward pass then keeps one tensor of all cells less
    change = torch.addcmul(add[:, None], cells, erase[:, None], value=-1)
    return torch.addcmul(cells, weights[:, :, None].to(change.dtype), change)
