"""What the ranks of a distributed run tell each other."""

import torch
import torch.distributed as distributed
from torch import Tensor


def summed(totals: Tensor, device: torch.device) -> Tensor:
    """The sum of every rank's totals."""
    if not _several():
        return totals
    shared = totals.to(device)
    distributed.all_reduce(shared)
    return shared.cpu()


def highest(number: int, device: torch.device) -> int:
    """The highest of all ranks' numbers."""
    if not _several():
        return number
    shared = torch.tensor(number, device=device)
    distributed.all_reduce(shared, distributed.ReduceOp.MAX)
    return int(shared)


def gathered(mine: dict) -> dict:
    """The union of every rank's entries."""
    if not _several():
        return mine
    everyone: list = [None] * distributed.get_world_size()
    distributed.all_gather_object(everyone, mine)
    return {key: value for entries in everyone for key, value in entries.items()}


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
