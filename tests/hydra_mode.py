"""Spare Hydra a composition: it composes everything to read hydra.mode, and again to run, which takes 0.2 s."""

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.hydra import Hydra
from hydra.types import RunMode

CONF_DIR = Path(__file__).parent.parent / "conf"
SET_MODE = {
    path.relative_to(CONF_DIR).parts[0] for path in CONF_DIR.rglob("*.yaml") if "mode: MULTI" in path.read_text()
}
compose_mode = Hydra.get_mode


def get_mode(hydra: Hydra, config_name: str, overrides: Sequence[str]) -> RunMode | None:
    """Return the same as Hydra.get_mode, unless a file of a user sets hydra.mode; None: -m decides."""
    keys = {override.lstrip("+").partition("=")[0] for override in overrides if override != "hydra.mode=RUN"}
    if keys & {*SET_MODE, "hydra.mode"} or "config.yaml" in SET_MODE:
        return compose_mode(hydra, config_name, overrides)
    return RunMode.RUN if "hydra.mode=RUN" in overrides else None
