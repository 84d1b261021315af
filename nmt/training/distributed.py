"""Exchange values between the ranks of a distributed run."""

import torch
import torch.distributed as distributed
from torch import Tensor


def sum_over_ranks(totals: Tensor, device: torch.device) -> Tensor:
    """Return the sum of every rank's totals."""
    if not _has_several_ranks():
        return totals
    shared = totals.to(device)
    distributed.all_reduce(shared)
    return shared.to(totals.device)


def highest(number: int, device: torch.device) -> int:
    """Return the highest of all ranks' numbers."""
    if not _has_several_ranks():
        return number
    shared = torch.tensor(number, device=device)
    distributed.all_reduce(shared, distributed.ReduceOp.MAX)
    return int(shared)


def gather_from_ranks(entries: dict) -> dict:
    """Return the union of every rank's entries."""
    if not _has_several_ranks():
        return entries
    of_ranks: list = [None] * distributed.get_world_size()
    distributed.all_gather_object(of_ranks, entries)
    return {key: value for of_rank in of_ranks for key, value in of_rank.items()}


def _has_several_ranks() -> bool:
    return distributed.is_initialized() and distributed.get_world_size() > 1
