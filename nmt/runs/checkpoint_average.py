"""The mean of several checkpoints of a run, a checkpoint to translate with."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint


def average_checkpoints(paths: Sequence[Path], output: Path) -> None:
    """Write a checkpoint whose weights are the mean of several checkpoints of one run."""
    checkpoints = [load_checkpoint(path) for path in paths]
    *others, last = checkpoints
    for path, other in zip(paths, others, strict=False):
        if other["nmt"]["vocabularies"] != last["nmt"]["vocabularies"]:
            raise UserError(f"{path}: other vocabularies than {paths[-1]}. Fix: average checkpoints of one run")
        if _shapes(other["state_dict"]) != _shapes(last["state_dict"]):
            raise UserError(f"{path}: other parameters than {paths[-1]}. Fix: average checkpoints of one model")
    mean = _mean([checkpoint["state_dict"] for checkpoint in checkpoints])
    save_checkpoint({"nmt": last["nmt"], "state_dict": mean, "global_step": last["global_step"]}, output)


def _mean(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average in float64; integers, which have no mean, come from the last state."""
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in states[-1].items()
    }


def _shapes(state: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}
