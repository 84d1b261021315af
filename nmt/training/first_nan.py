"""Find the line of code that makes the first NaN of a loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from nmt.errors import locate_error


def find_first_nan(compute: Callable[[], Any]) -> str | None:
    """Return file, line and operation of the first NaN that a computation makes of other values, or None."""
    try:
        with torch.no_grad(), _RaiseOnNan():
            compute()
    except FloatingPointError as error:
        return locate_error(error, skip=__file__)
    return None


class _RaiseOnNan(TorchFunctionMode):
    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        had_nan = _has_nan((args, kwargs))  # before the call, because it may write to its arguments
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", str(function))
        if not had_nan and "empty" not in name and _has_nan(result):  # because empty tensors hold any values
            raise FloatingPointError(f"{name} returned NaN")
        return result


def _has_nan(values: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and bool(leaf.isnan().any()) for leaf in tree_leaves(values))
