"""Read the KEY=VALUE arguments of a command over its defaults."""

import sys

from omegaconf import DictConfig, OmegaConf

import nmt.config.resolvers  # noqa: F401, because the configuration files use them
from nmt.config.schema import defaults_of, misfit
from nmt.errors import ConfigurationError


def read_arguments(
    name: str, arguments: list[str], usage: str, *, takes_data: bool = False
) -> tuple[DictConfig, list[str]]:
    """KEY=VALUE arguments over conf/NAME.yaml; with `takes_data` those that begin with `data.` are
    given back as they are, for the run's own data settings."""
    if any(argument in ("-h", "--help", "help") for argument in arguments):
        print(usage.strip())
        sys.exit(0)
    known = defaults_of(name)
    OmegaConf.set_struct(known, True)
    for argument in arguments:
        if "=" not in argument:
            raise ConfigurationError(f"{argument}: arguments are KEY=VALUE, such as run=FOLDER; --help says more")
    of_data = [argument for argument in arguments if takes_data and argument.startswith("data.")]
    if takes_data and (named := [argument for argument in arguments if argument.startswith("test=")]):
        raise ConfigurationError(f"{named[0]}: no such key; a test set is chosen by data.{named[0]}")
    given = OmegaConf.from_dotlist([argument for argument in arguments if argument not in of_data])
    settings = OmegaConf.merge(known, given)
    for key, value in given.items():
        if wrong := misfit(key, value, known[key]):
            raise ConfigurationError(wrong)
    return settings, of_data
