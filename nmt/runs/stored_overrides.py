"""Repeat a run: its stored overrides, refused where they could do harm."""

import re
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from nmt.config.allowed_targets import REFERRED
from nmt.config.overrides import quoted
from nmt.errors import UserError, first_line
from nmt.runs.folder import OVERRIDES

# Overrides of a run that may be somebody else's: none that calls what it names, reads the environment, is an option, or
# says where files are written.
PLACES = (
    r"logger[.=].*(?:path|dir)|callbacks[.=].*path|data[.=].*cache|pretraining_folder|(?:name|sweep)=\W*(?:/|.*\.\.)"
)


FOREIGN = re.compile(rf"^[+~]*(?:-|hydra\b|{PLACES})|_target_|\$\{{(?!{REFERRED})")
OF_SWEEPS = re.compile(r"^\+*(?:table|hparams_search)=")  # which a run was a job of


def repeating(arguments: list[str]) -> list[str]:
    """run=FOLDER stands for all the overrides of that run; what is given beside it comes after them."""
    named = [argument.removeprefix("run=") for argument in arguments if argument.startswith("run=")]
    if not named:
        return arguments
    folder = Path(named[-1])
    try:
        overrides = OmegaConf.to_container(OmegaConf.load(folder / OVERRIDES))
    except FileNotFoundError as error:
        raise UserError(f"run={folder}: no {OVERRIDES} there; name the folder of a run to repeat") from error
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"run={folder}: its {OVERRIDES} cannot be read ({first_line(error)})") from error
    if not isinstance(overrides, list):
        raise UserError(f"run={folder}: its {OVERRIDES} is not a list of KEY=VALUE")
    for override in overrides:
        if any(map(FOREIGN.search, _with_those_of_a_stage(str(override)))):
            raise UserError(f"run={folder}: refused to repeat {override}; where you trust it, write it yourself")
    own = [override for override in overrides if not OF_SWEEPS.match(str(override))]
    others = [argument for argument in arguments if not argument.startswith("run=")]
    return [*own, f"repeats={quoted(folder.absolute())}", *others]


def _with_those_of_a_stage(override: str) -> list[str]:
    """pretraining={overrides: [KEY=VALUE, …]} has overrides within."""
    is_of_a_stage = re.match(r"[+~]*pretraining\b", override)
    within = re.split(r"[\s\[\]{},]+", re.sub(r"['\"\\]", "", override)) if is_of_a_stage else []
    return [override, *within]
