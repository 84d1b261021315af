"""The gated write of a neural Turing machine, as MEMDEC's memory and interactive attention use it."""

import torch
from jaxtyping import Float
from torch import Tensor


def erase_and_add(
    cells: Float[Tensor, "hypothesis cell size"],
    weights: Float[Tensor, "hypothesis cell"],
    erase: Float[Tensor, "hypothesis size"],
    add: Float[Tensor, "hypothesis size"],
) -> Float[Tensor, "hypothesis cell size"]:
    """m_k ← m_k ⊙ (1 − w_k · erase) + w_k · add, computed as m_k + w_k (add − m_k ⊙ erase): one tensor less to keep."""
    change = torch.addcmul(add[:, None], cells, erase[:, None], value=-1)
    return torch.addcmul(cells, weights[:, :, None].to(change.dtype), change)
