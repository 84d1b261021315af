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
