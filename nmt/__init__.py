"""Experiments with attention-based recurrent translation models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api.compared_runs import compare as compare
    from nmt.api.loaded_model import load as load

__version__ = "0.1.0"
__all__ = ["compare", "load"]


def __getattr__(name: str) -> Any:
    """Import `load` and `compare` when they are first used, because torch takes seconds."""
    if name == "load":
        from nmt.api.loaded_model import load

        return load
    if name == "compare":
        from nmt.api.compared_runs import compare

        return compare
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
