"""KEY=VALUE overrides on the command line: their order and their quotes."""

import re
from pathlib import Path

from nmt.errors import ConfigurationError

MULTIRUN = {"-m", "--multirun"}


def sweep_first(arguments: list[str]) -> list[str]:
    """-m may stand anywhere: after KEY=VALUEs nothing more of them would be read. Jobs of sweeps, and stages, are
    composed from config.yaml alone."""
    for argument in arguments:
        if re.match(r"(--config-name|-cn)\b", argument):
            raise ConfigurationError(
                f"{argument}: settings of your own are an experiment; put them into DIR/experiment/NAME.yaml and give "
                "--config-dir DIR experiment=NAME"
            )
        if argument in ("hydra.run.dir=", "hydra.sweep.dir="):  # Hydra would write to where the user works
            raise ConfigurationError(f"{argument}: names no folder; leave it out, or give one")
    flags = [argument for argument in arguments if argument in MULTIRUN]
    return [*flags, *(argument for argument in arguments if argument not in flags)]


def quoted(path: Path | str) -> str:
    """For Hydra's grammar, in which = and , have a meaning, and \\ has one before a quote alone."""
    text = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), str(path))
    return f"'{text}'"
