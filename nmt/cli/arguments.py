"""Read the KEY=VALUE arguments of a command over its defaults."""

import os
import re
import sys
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

import nmt.config.resolvers  # noqa: F401, because the configuration files use them
from nmt.config.installation import CONF_DIR, name_command
from nmt.config.key_list import describe_keys
from nmt.config.overrides import expand_home, explain_split_argument, find_repeated, quote_paths, read_dotlist
from nmt.config.schema import find_misfit, load_defaults
from nmt.config.user_dir import add_user_dir
from nmt.errors import ConfigurationError
from nmt.system.files import suggest_path

HELP = {"-h", "--help", "help"}


def read_arguments(
    command: str, arguments: list[str], usage: str, *, takes_data: bool = False
) -> tuple[DictConfig, list[str]]:
    """Read KEY=VALUE arguments over the defaults in conf/COMMAND.yaml; a search key that is not given is null.

    Args:
        command: the name of the command.
        arguments: its arguments.
        usage: the text of --help, to which a list of all keys is added.
        takes_data: accept keys that begin with `data.`, for the data settings of the run.

    Returns:
        The settings, and the `data.` arguments as they are.
    """
    usage = usage.replace(f"python {command}.py", name_command(command)).strip()
    exit_after_help(arguments, f"{usage}\n\nAll keys with their defaults:\n\n{describe_keys(command)}")
    # without the + of a new key, which train.py takes too
    arguments = [expand_home(argument.lstrip("+")) for argument in arguments]
    defaults = load_defaults(command)
    OmegaConf.set_struct(defaults, True)
    for argument in arguments:
        if not re.match("[^=/]+=", argument):
            raise ConfigurationError(explain_split_argument(argument, arguments) or _explain_plain(argument))
        if takes_data and argument.startswith("test="):
            raise ConfigurationError(f"{argument}: no such key. Fix: data.{argument}")
    if repeated := find_repeated(arguments):
        runs = [argument.removeprefix("run=") for argument in repeated if argument.startswith("run=")]
        ensemble = f", or 'runs=[{','.join(runs)}]' for an ensemble" if "runs" in defaults else ""
        several = f", {' '.join(runs)} without run={ensemble}" if runs else ""
        raise ConfigurationError(f"{' '.join(repeated)}: one key, several values. Fix: keep one{several}")
    data_overrides = [argument for argument in arguments if takes_data and argument.startswith("data.")]
    read_dotlist(data_overrides)  # because a model is opened before they are used
    given = {argument.partition("=")[0]: argument for argument in arguments if argument not in data_overrides}
    settings = _compose(command, given, defaults)
    if settings.user_dir is not None or "user_dir=" in arguments:
        settings.user_dir = str(add_user_dir(settings.user_dir or ""))
    search = load_defaults("search").keys()
    if search <= defaults.keys():  # a command that searches; align.py has only a key of the same name, seed
        settings.update(dict.fromkeys(search - given.keys()))  # because the run decides them
    return settings, data_overrides


def _compose(command: str, given: dict[str, str], defaults: DictConfig) -> DictConfig:
    """Return the defaults with the given arguments, of which each must have a known key and a value of its kind."""
    # an unknown key is an error here, because a group, hydra.KEY and ~KEY have a meaning for Hydra
    known = {key: defaults[key.partition(".")[0]] for key in given}
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        settings = compose(command, list(map(quote_paths, given.values())))
    for key, default in known.items():
        if problem := find_misfit(key, settings[key], default):
            raise ConfigurationError(problem)
    return settings


def _explain_plain(argument: str) -> str:
    """Explain a plain argument that is no run."""
    if re.fullmatch(r"~[\w.]+", argument):
        return f"{argument}: only train.py can leave out a part. Fix: leave out this argument"
    if os.path.isfile(argument):
        return f"{argument}: is a file, not a run. Fix: name a run's folder or a .ckpt file, or write KEY={argument}"
    fix = "Fix: name the folder of a run, or write KEY=VALUE; --help explains the keys"
    return f"{argument}: no such folder or checkpoint{suggest_path(Path(argument))}, and not KEY=VALUE. {fix}"


def exit_after_help(arguments: list[str], usage: str) -> None:
    """Print the usage and exit if the arguments ask for help."""
    if HELP & set(arguments):
        print(usage.strip())
        sys.exit(0)
