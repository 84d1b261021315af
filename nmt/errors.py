"""Errors that a user can fix: one line with what is wrong, where, and what to type."""

import importlib.util
import os
import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

PACKAGE = str(Path(__file__).parent)
user_folders: list[str] = []  # of the user's own code; nmt/config/user_dir.py adds them


class UserError(Exception):
    """A mistake in the command, the configuration or the data, shown as one line without a traceback."""


class ConfigurationError(UserError):
    """A setting that does not exist, has a wrong value, or does not go together with another."""


class DataError(UserError):
    """Text that cannot be used; the message names the file and the line."""


class NoFileError(DataError):
    """A missing data file; `hint` says where to get it."""

    def __init__(self, path: str | Path, hint: str | None = None):
        super().__init__(path, hint)
        self.path, self.hint = path, hint

    def __str__(self) -> str:
        return f"{self.path}: no such file" + (f" ({self.hint})" if self.hint else "")


class CheckpointError(UserError):
    """A checkpoint that cannot be opened; the message begins with its path."""


def is_importable(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # because any folder named wandb is a module without origin


def require_packages(setting: str, *packages: str, extra: str) -> None:
    """Refuse a setting whose optional packages are not installed; their modules have the same names."""
    if not all(map(is_importable, packages)):
        needs = f"needs {' and '.join(packages)} (extra: {extra})"
        raise ConfigurationError(f"{setting}: {needs}. Fix: pip install {' '.join(packages)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" with the most similar known word, or an empty text."""
    similar = get_close_matches(word, list(known), n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def list_first(items: Sequence[str], most: int = 4) -> str:
    """Return the first items of a list, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def make_printable(text: str) -> str:
    """Replace characters that a terminal would obey; a run from somebody else may contain them."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if the message is empty."""
    return re.sub(r"\s+", " ", str(error).strip().split("\n")[0]) or type(error).__name__


def locate_error(error: BaseException, skip: str = "") -> str | None:
    """Return file, line and reason of an error in the code of this package or of the user; None if it is from outside.

    Args:
        error: The error.
        skip: A file whose own lines do not count.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _is_ours(frame.filename) and frame.filename != skip]
    if not ours:
        return None
    return f"{ours[-1].filename}, line {ours[-1].lineno}: {type(error).__name__}: {first_line(error)}"


def _is_ours(file: str) -> bool:
    """Return whether a file is of this package, or the user's; the user's folder may hold an environment."""
    is_users = file.startswith(tuple(f"{folder}{os.sep}" for folder in user_folders)) and "site-packages" not in file
    return file.startswith(PACKAGE) or is_users
