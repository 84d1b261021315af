"""Trees of tensors: a tensor, or a (named) tuple of trees. States are trees."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

Tree = Any  # jaxtyping has no recursive types


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Apply a function to every tensor. Reordering, repeating or dropping hypotheses is one such call."""
    if isinstance(tree, Tensor):
        return function(tree)
    branches = [map_tree(function, branch) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def leaves_of(tree: Tree) -> list[Tensor]:
    """Return the tensors, in the order in which `map_tree` visits them."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for branch in tree for leaf in leaves_of(branch)]


def with_leaves(tree: Tree, leaves: Iterable[Tensor]) -> Tree:
    """Return a tree of this structure with other tensors, in the order of `leaves_of`."""
    remaining = iter(leaves)
    return map_tree(lambda _: next(remaining), tree)


def repeat_per_hypothesis(bound: Tree, hypotheses: int) -> Tree:
    """Repeat the rows of sentences (B, …) for their hypotheses (N, …)."""
    return map_tree(lambda rows: _repeat(rows, hypotheses // rows.shape[0]), bound)


def _repeat(rows: Tensor, times: int) -> Tensor:
    return rows if times == 1 else rows.repeat_interleave(times, 0)  # no copy in training
