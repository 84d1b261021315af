"""Places to write to, looked at before the work whose results go there, which may take hours."""

from pathlib import Path
from tempfile import TemporaryFile

from nmt.errors import ConfigurationError


def writable(folder: Path, said: str, elsewhere: str = "") -> Path:
    """Made where it is not there. `said`: the KEY=PATH that names it; `elsewhere`: what names another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ConfigurationError(f"{said}: cannot be written ({error.strerror}){elsewhere}") from None
