"""Repeat a run: its stored overrides, refused where they could do harm."""

import re
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from nmt.config.allowed_targets import ALLOWED_REFERENCE
from nmt.config.overrides import quote_value
from nmt.errors import UserError, first_line
from nmt.runs.folder import OVERRIDES

# The run may come from somebody else. Refused are overrides that call what they name, read the environment, are
# options of the command, or say where files are written.
OUTPUTS = (
    r"logger[.=].*(?:path|dir)|callbacks[.=].*path|data[.=].*cache|pretraining_folder|(?:name|sweep)=\W*(?:/|.*\.\.)"
)
REFUSED = re.compile(rf"^[+~]*(?:-|hydra\b|{OUTPUTS})|_target_|\$\{{(?!{ALLOWED_REFERENCE})")
OF_SWEEPS = re.compile(r"^\+*(?:table|hparams_search)=")  # which the run was a job of


def repeat_run(arguments: list[str]) -> list[str]:
    """Replace run=FOLDER by the overrides of that run; the other arguments come after them and take precedence."""
    folders = [argument.removeprefix("run=") for argument in arguments if argument.startswith("run=")]
    if not folders:
        return arguments
    folder = Path(folders[-1])
    overrides = _read_overrides(folder)
    for override in overrides:
        if any(map(REFUSED.search, [override, *_inner_overrides(override)])):
            raise UserError(f"run={folder}: refused to repeat {override}. Fix: write it yourself, if you trust it")
    repeated = [override for override in overrides if not OF_SWEEPS.match(override)]
    others = [argument for argument in arguments if not argument.startswith("run=")]
    return [*repeated, f"repeats={quote_value(folder.absolute())}", *others]


def _read_overrides(folder: Path) -> list[str]:
    try:
        overrides = OmegaConf.to_container(OmegaConf.load(folder / OVERRIDES))
    except FileNotFoundError as error:
        raise UserError(f"run={folder}: no {OVERRIDES} there. Fix: name the folder of a run to repeat") from error
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"run={folder}: its {OVERRIDES} cannot be read ({first_line(error)})") from error
    if not isinstance(overrides, list):
        raise UserError(f"run={folder}: its {OVERRIDES} is not a list of KEY=VALUE")
    return list(map(str, overrides))


def _inner_overrides(override: str) -> list[str]:
    """Return the overrides inside pretraining={overrides: [KEY=VALUE, …]}."""
    if not re.match(r"[+~]*pretraining\b", override):
        return []
    return re.split(r"[\s\[\]{},]+", re.sub(r"['\"\\]", "", override))
