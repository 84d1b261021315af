"""Repeat a run: its stored overrides, refused where they could do harm.

The run may come from somebody else. So its overrides may only choose files of the configuration by name, and set
values. They may not name code or other files of configuration, read the environment, or say where files are written.
The folder of the user's code, user_dir, is never taken from them.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from nmt.config.allowed_targets import COMPUTED, ENVIRONMENT, walk
from nmt.config.diff import override_key
from nmt.config.overrides import quote_value, read_path
from nmt.config.schema import load_setting_names
from nmt.data.named_files import is_named
from nmt.errors import UserError
from nmt.runs.folder import OVERRIDES
from nmt.system.safe_files import UnreadableError, read_yaml

CHOICE = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")  # a name below the folder of a group; ../ would lead out of it
# A complete reference to other settings, with nothing inside from which a second resolution could make another one
REFERENCE = re.compile(rf"\$\{{(?:{COMPUTED}[^${{}}]*|{ENVIRONMENT}(?:,[^${{}}]*)?|\w[.\w]*)\}}", re.ASCII)
REFUSED_KEYS = re.compile(
    r".*_target_|user_dir"
    r"|hydra\b"
    r"|logger\.\w+\.(?!(?:project|group|tags|offline|artifacts)\b)"  # others say where results are sent
    r"|callbacks\..*(?:path|file)|data\..*cache|pretraining_folder"  # where files are written
)
FILE_KEYS = re.compile(r"data\.(?:dir|reader|train|valid|tests)\b")
RUN_KEYS = re.compile(r"(?:init_from|ckpt_path|vectors|data\.vocabulary\.run)\b")  # of runs and files to read
OF_SWEEPS = re.compile(r"^\+*(?:table|hparams_search)=")  # which the run was a job of


def repeat_run(arguments: list[str]) -> list[str]:
    """Replace run=FOLDER by the overrides of that run; the other arguments come after them and take precedence."""
    arguments = list(map(_name_run, arguments))
    folders = [read_path(argument.removeprefix("run=")) for argument in arguments if argument.startswith("run=")]
    if not folders:
        return arguments
    if len(folders) > 1:
        given = " ".join(f"run={folder}" for folder in folders)
        raise UserError(f"{given}: one command repeats one run. Fix: keep one")
    if folders[0] is None:
        raise UserError("run=: names no folder. Fix: run=FOLDER, the folder of a run to repeat")
    folder = Path(folders[0])
    overrides = _leave_out_user_dir(_read_overrides(folder), folder, arguments)
    typed = set(map(override_key, arguments))
    refused = [override for override in overrides if not _is_harmless(override)]
    for override in refused:
        if override_key(override) not in typed:
            raise UserError(f"run={folder}: refused to repeat {override}. Fix: write it yourself, if you trust it")
    repeated = [override for override in overrides if override not in refused and not OF_SWEEPS.match(override)]
    others = [argument for argument in arguments if not argument.startswith("run=")]
    return [*repeated, f"repeats={quote_value(folder.absolute())}", *others]


def _name_run(argument: str) -> str:
    """Return run=FOLDER for a plain argument that is the folder of a run; seed=1 is an override, ./seed=1 is not."""
    is_plain = "/" in argument.partition("=")[0] or "=" not in argument
    return f"run={argument}" if is_plain and os.path.isfile(os.path.join(argument, OVERRIDES)) else argument


def _read_overrides(folder: Path) -> list[str]:
    try:
        overrides = read_yaml(folder / OVERRIDES)
    except UnreadableError as error:
        raise UserError(f"run={folder}: {error}. Fix: name the folder of another run to repeat") from error
    if not isinstance(overrides, list):
        raise UserError(f"run={folder}: {OVERRIDES} is not a list of KEY=VALUE. Fix: name the folder of another run")
    return list(map(str, overrides))


def find_typed(folder: str, overrides: Sequence[str]) -> dict[str, str]:
    """Return the values of a command that repeats a run, without those of the run itself, by key."""
    stored = _read_overrides(Path(folder)) if Path(folder).is_dir() else []  # it may be gone when its copy is resumed
    typed = Counter(map(_normalize, overrides)) - Counter(map(_normalize, stored))
    parsed = OverridesParser.create().parse_overrides(list(typed.elements()))
    values = (place for override in parsed for place in walk(override.value(), override.key_or_group))
    return {key: str(value) for key, value in values}


def _normalize(override: str) -> str:
    """Return an override as Hydra writes it for the jobs of a sweep."""
    parsed = OverridesParser.create().parse_override(override)
    return f"{parsed.get_key_element()}={parsed.get_value_element_as_str()}"


def _leave_out_user_dir(overrides: list[str], folder: Path, arguments: list[str]) -> list[str]:
    """Return the overrides without the folder of the user's code, which the command must name again."""
    named = [override for override in overrides if override_key(override) == "user_dir"]
    if named and "user_dir" not in map(override_key, arguments):
        raise UserError(f"run={folder}: was trained with {named[0]}. Fix: add user_dir=FOLDER if you trust it")
    return [override for override in overrides if override not in named]


def _is_harmless(text: str) -> bool:
    """True for an override that chooses files of the configuration by name, or sets harmless values."""
    try:
        override = OverridesParser.create().parse_override(text)
    except (HydraException, RecursionError):  # an option of the command, for example
        return False
    if override.package is not None or override.is_sweep_override():
        return False
    key, value = override.key_or_group, override.value()
    is_group = "." not in key and key not in load_setting_names() and not isinstance(value, Mapping)
    if is_group and not all(map(_is_choice, value if isinstance(value, list) else [value])):
        return False
    return all(_is_harmless_value(place, node) for place, node in walk(value, key))


def _is_choice(value: Any) -> bool:
    return value is None or CHOICE.fullmatch(str(value)) is not None


def _is_harmless_value(key: str, value: Any) -> bool:
    """True for a value that may be set; the values inside a mapping or a list are checked one by one."""
    if isinstance(value, Mapping | list):
        return True
    text = str(value)
    if REFUSED_KEYS.match(key):
        return False
    if RUN_KEYS.match(key):
        return value is None or REFERENCE.fullmatch(text) is not None or is_named(Path(text)) or is_named(text)
    if re.match(r"(?:name|sweep)\b", key):  # of folders
        return not text.startswith("/") and ".." not in text and "$" not in text
    if key.startswith("pretraining"):  # its references are resolved before its overrides are parsed
        is_override = key.startswith("pretraining.overrides")
        return "$" not in text and (_is_harmless_to_stage(text) if is_override else _is_choice(value))
    return "$" not in _remove_references(text)


def _is_harmless_to_stage(text: str) -> bool:
    """True for a harmless override of a pretraining stage; its files must be named before, as no check follows."""
    if not _is_harmless(text):
        return False
    override = OverridesParser.create().parse_override(text)
    values = [value for key, value in walk(override.value(), override.key_or_group) if FILE_KEYS.match(key)]
    return all(is_named(Path(value)) or is_named(value) for value in values if isinstance(value, str))


def _remove_references(text: str) -> str:
    while (shorter := REFERENCE.sub("", text)) != text:
        text = shorter
    return text
