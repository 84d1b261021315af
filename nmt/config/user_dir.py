"""The user's folder, user_dir=FOLDER: classes outside this project, and a conf/ whose files become choices.

Its code runs because the command, or the call from Python, names it. A folder that a run has stored is never used.
"""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from nmt.config.diff import override_key
from nmt.config.installation import CONF_DIR, PACKAGE
from nmt.config.overrides import quote_value
from nmt.errors import ConfigurationError, did_you_mean, user_folders

LIBRARIES = {Path(path).resolve() for path in (PACKAGE.parent, *sysconfig.get_paths().values())}
FIX = "Fix: user_dir=FOLDER, with your Python files and your conf/"


def add_user_dir(path: str | os.PathLike[str]) -> Path:
    """Make the code and the conf/ of a folder known to this process, and return its full path."""
    if not os.fspath(path):
        raise ConfigurationError(f"user_dir=: names no folder. {FIX}")
    folder = Path(os.path.realpath(os.path.expanduser(path)))
    if problem := _find_problem(folder):
        raise ConfigurationError(f"user_dir={path}: {problem}")
    if str(folder) not in user_folders:
        user_folders.append(str(folder))
        sys.path.append(str(folder))  # at the end, because a file of it must not replace an installed module
    importlib.invalidate_caches()  # because a notebook writes files after the first call
    return folder


def add_typed_user_dir(arguments: Sequence[str]) -> list[str]:
    """Add the folder that user_dir= names, and return the arguments with its full path, which jobs need."""
    typed = [argument for argument in arguments if override_key(argument) == "user_dir"]
    value = OverridesParser.create().parse_override(typed[-1]).value() if typed else None
    if value is None:
        return list(arguments)
    text = value if isinstance(value, str) else typed[-1].partition("=")[2]  # because 007 would be read as 7
    folder = add_user_dir(text)
    # first, because Hydra's parser reads no KEY=VALUE after a flag such as --cfg that follows others
    return [f"user_dir={quote_value(folder)}", *(argument for argument in arguments if argument not in typed)]


def add_configured_user_dir(config: DictConfig, overrides: Iterable[str]) -> None:
    """Add the folder in a process that a launcher started, such as submitit's; a file cannot set it."""
    if (path := config.get("user_dir")) is None:
        return
    if not any(override_key(override) == "user_dir" for override in overrides):
        raise ConfigurationError(
            f"user_dir={path}: is set by a file. Fix: type it on the command line, if you trust it"
        )
    add_user_dir(str(path))


def list_conf_dirs() -> list[Path]:
    """Return the folders of configuration files: that of this project, then the user's."""
    return [CONF_DIR, *(conf for folder in user_folders if (conf := Path(folder, "conf")).is_dir())]


def find_module_file(module: str, folders: Iterable[str | os.PathLike[str]]) -> Path | None:
    """Return the file of a module if it lies in one of the folders; nothing is imported."""
    parts = module.split(".")
    if not all(map(str.isidentifier, parts)):  # because a part with a / would lead out of the folder
        return None
    places = [Path(folder, *parts) for folder in folders]
    files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return next(filter(Path.is_file, files), None)


def _find_problem(folder: Path) -> str | None:
    """Return why a folder cannot be the user's, or None if it can."""
    conf = folder / "conf"
    if not folder.exists():
        siblings = [path.name for path in folder.parent.glob("*/")]
        return f"no such folder{did_you_mean(folder.name, siblings)}. {FIX}"
    if not folder.is_dir():
        return f"is a file, not a folder. Fix: user_dir={folder.parent}"
    if folder in LIBRARIES:
        return "holds this project, or libraries of Python. Fix: name a folder that holds your files alone"
    if not conf.is_dir() and next(folder.rglob("*.py"), None) is None:
        return f"holds neither Python files nor conf/. {FIX}"
    taken = [file for file in sorted(conf.rglob("*.yaml")) if (CONF_DIR / file.relative_to(conf)).is_file()]
    return f"{taken[0]} has the name of a file of this project. Fix: rename it" if taken else None
