"""The errors a user can mend: each is one line that says what is wrong, where, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class UserError(Exception):
    """Something in the command, the configuration or the data; shown as one line, without a traceback."""


class ConfigurationError(UserError):
    """A setting that does not exist, does not fit, or cannot be combined with another."""


class DataError(UserError):
    """Text that cannot be used as it is; the message names the file and the line."""


class NoFileError(DataError):
    """A file of the data that is not there; `hint`: where to get it."""

    def __init__(self, path: str | Path, hint: str | None = None):
        super().__init__(path, hint)
        self.path, self.hint = path, hint

    def __str__(self) -> str:
        return f"{self.path}: no such file" + (f" ({self.hint})" if self.hint else "")


class CheckpointError(UserError):
    """A checkpoint that cannot be opened; the message begins with its path."""


def closest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a message."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def first_line(error: BaseException) -> str:
    """What an error of anybody's says; its name where it says nothing."""
    return re.sub(r"\s+", " ", str(error).strip().split("\n")[0]) or type(error).__name__
