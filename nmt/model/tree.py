"""States are trees: nested tuples whose leaves are tensors with the hypothesis as first dimension."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

Tree = Any  # a tensor, or a (named) tuple of trees


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Apply a function to every tensor of a tree: reordering, tiling and shrinking hypotheses are each one call."""
    if isinstance(tree, Tensor):
        return function(tree)
    branches = [map_tree(function, branch) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def for_each_hypothesis(bound: Tree, hypotheses: int) -> Tree:
    """What is fixed for a sentence, once for each of its hypotheses."""
    return map_tree(lambda leaf: _repeat(leaf, hypotheses // leaf.shape[0]), bound)


def _repeat(leaf: Tensor, times: int) -> Tensor:
    return leaf if times == 1 else leaf.repeat_interleave(times, 0)
