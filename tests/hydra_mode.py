"""Spare Hydra a composition: it composes everything to read hydra.mode, and again to run, which takes 0.2 s."""

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra.types import RunMode

FILES = (Path(__file__).parent.parent / "conf").rglob("*.yaml")
SET_MODE = tuple({f"{path.parent.name}=" for path in FILES if "mode: MULTIRUN" in path.read_text()})  # groups
compose_mode = Hydra.get_mode


def get_mode(hydra: Hydra, config_name: str, overrides: Sequence[str]) -> RunMode | None:
    """Stand for Hydra.get_mode; None: -m decides."""
    if any(override.lstrip("+").startswith(SET_MODE) for override in overrides):
        return compose_mode(hydra, config_name, overrides)
    return RunMode.RUN if "hydra.mode=RUN" in overrides else None
