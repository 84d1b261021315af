"""A stand-in for the recorder of a GPU's graphs."""

import torch


def run_again(function):
    """Record a function: a replay runs it again, and fills the same memory."""
    fixed = [result.clone() for result in function()]

    def replay():
        with torch.enable_grad():
            results = function()
        for memory, result in zip(fixed, results, strict=True):
            memory.copy_(result)

    return replay, fixed
