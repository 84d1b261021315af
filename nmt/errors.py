"""The errors a user can mend: each is one line that says what is wrong, where, and what to do."""

import re


class UserError(Exception):
    """Something in the command, the configuration or the data; shown as one line, without a traceback."""


class ConfigurationError(UserError):
    """A setting that does not exist, does not fit, or cannot be combined with another."""


class DataError(UserError):
    """Text that cannot be used as it is; the message names the file and the line."""


class NoFileError(DataError):
    """A file of the data that is not there."""


def first_line(error: BaseException) -> str:
    """What an error of anybody's says; its name where it says nothing."""
    return re.sub(r"\s+", " ", str(error).strip().split("\n")[0]) or type(error).__name__
