"""KEY=VALUE overrides on the command line: their order and their quotes."""

import re
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from nmt.errors import ConfigurationError

MULTIRUN = {"-m", "--multirun"}


def prepare_arguments(arguments: list[str]) -> list[str]:
    """Refuse arguments that training cannot follow, and move -m to the front."""
    for argument in arguments:
        # because the jobs of a sweep and pretraining stages are composed from config.yaml
        if re.match(r"(--config-name|-cn)\b", argument):
            raise ConfigurationError(
                f"{argument}: the main configuration is always config.yaml. Fix: put your settings into "
                "DIR/experiment/NAME.yaml and give --config-dir DIR experiment=NAME"
            )
        if argument in ("hydra.run.dir=", "hydra.sweep.dir="):  # Hydra would write to the working directory
            raise ConfigurationError(f"{argument}: names no folder. Fix: leave it out, or name one")
    # because Hydra's parser reads no KEY=VALUE after a flag that follows others
    return sorted(arguments, key=lambda argument: argument not in MULTIRUN)


def read_overrides() -> tuple[str, ...]:
    """Return the overrides of the job as written, because validation=${search}, resolved, is no override."""
    return tuple(OmegaConf.to_container(HydraConfig.get().overrides.task))


def quote_value(value: Path | str) -> str:
    r"""Quote a value for Hydra's grammar, in which = and , have a meaning, and \ has one only before a quote."""
    text = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), str(value))
    return f"'{text}'"
