"""Runs as plain arguments, as a shell completes them: `multirun/first/*` in place of 'runs=[FOLDER,FOLDER]'."""

import os
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from nmt.config.overrides import expand_home
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError
from nmt.runs.folder import SWEEP
from nmt.system.hub import is_hub_name


def split_runs(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the runs among the arguments of a command, and the other arguments.

    A run is hf:OWNER/NAME, or an existing folder or .ckpt file, whose name may contain = and a comma. The files beside
    a sweep's jobs are left out, because `multirun/first/*` names them too.
    """
    keys = load_defaults(command).keys()
    runs, others = [], []
    for argument in arguments:
        path = expand_home(argument)
        key, is_pair, _ = argument.partition("=")
        if is_pair and key in keys and os.path.exists(path):
            raise ConfigurationError(
                f"{argument}: is a key, and also a file or folder here. Fix: ./{argument} names the run"
            )
        if is_hub_name(argument):
            runs.append(argument)
        elif not os.path.exists(path):
            others.append(argument)
        elif os.path.isdir(path) or path.endswith(".ckpt"):
            runs.append(path)
        elif not any((Path(path).parent / name).is_file() for name in (SWEEP, "multirun.yaml")):
            others.append(argument)
    return runs, others


def name_runs(settings: DictConfig, runs: Sequence[str]) -> None:
    """Set `run` to a single plain argument, and `runs` to several."""
    if not runs:
        return
    if settings.run is not None or settings.runs:
        key = "runs" if settings.runs else "run"
        raise ConfigurationError(f"{runs[0]}: {key}= names runs too. Fix: leave out {key}=, or the plain arguments")
    if len(runs) == 1:
        settings.run = runs[0]
    else:
        settings.runs = list(runs)
