"""The first job of a sweep, whose settings --cfg and --help show, because Hydra refuses them together with -m."""

import re
import sys
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from nmt.config.diff import override_key
from nmt.config.overrides import MULTIRUN
from nmt.config.user_dir import list_conf_dirs

SHOWS = re.compile(r"(--cfg|-c|--help|-h|--info|-i)(=|$)")
SWEPT_BY = ("table", "hparams_search")  # groups whose files name the settings of a sweep


def show_first_job(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a sweep's first job if they only show settings, otherwise all arguments."""
    swept_by = [argument for argument in arguments if override_key(argument) in SWEPT_BY and "=" in argument]
    is_sweep = swept_by or MULTIRUN & set(arguments)
    if not is_sweep or not any(map(SHOWS.match, arguments)):
        return list(arguments)
    listed = [setting for argument in swept_by for setting in _read_sweep(argument)]
    typed = [argument for argument in arguments if argument not in MULTIRUN]
    first = [new for argument in [*listed, *typed] for new in _take_first(argument)]
    chosen = [new for new in first if new not in typed]
    if chosen:
        print(f"the first job of the sweep: {' '.join(chosen)}", file=sys.stderr)
    return first


def _read_sweep(override: str) -> list[str]:
    """Return the settings that a table, or a search of hyperparameters, sweeps over."""
    group, name = override_key(override), override.partition("=")[2]
    files = (folder / group / f"{name}.yaml" for folder in list_conf_dirs())
    settings = [OmegaConf.load(file) for file in files if file.is_file()]
    return [f"{key}={value}" for one in settings for key, value in one.hydra.sweeper.params.items()]


def _take_first(argument: str) -> list[str]:
    """Return an override with the first of its values, or nothing, so that the default is kept."""
    if "=" not in argument or argument.startswith("-"):
        return [argument]
    override = OverridesParser.create().parse_override(argument)
    if not override.is_sweep_override():
        return [argument]
    try:
        return [f"{argument.partition('=')[0]}={next(override.sweep_string_iterator())}"]
    except HydraException:  # because an interval and a pattern list no values
        return []
