"""The output file of translations: FILE.….part until it is complete; compressed if it ends with .gz or .zst."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from omegaconf import DictConfig

from nmt.errors import ConfigurationError
from nmt.runs.folder import refuse_own_files
from nmt.system.files import random_suffix


def check_output(settings: DictConfig) -> Path | None:
    """Return the path that `output` names, or None; refuse one that would lose another file."""
    if settings.output is None:
        return None
    path = Path(str(settings.output))
    refuse_own_files(path)
    if path.exists() and not path.is_file():  # such as /dev/null
        raise ConfigurationError(
            f"output={path}: exists and is no regular file. Fix: name a file, or leave output= out for standard output"
        )
    inputs = {key: Path(str(settings[key])) for key in ("input", "prefixes") if settings[key] is not None}
    for key, read in inputs.items():
        if path.exists() and read.exists() and read.samefile(path):
            raise ConfigurationError(f"output={path}: would overwrite {key}={read}. Fix: name another file")
    return path


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open FILE.….part, and rename it to FILE at the end; after an error it stays."""
    draft = path.with_name(f"{path.name}.{random_suffix()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _choose_opener(path.suffix)(draft, "wt", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"output={path}: cannot be written ({error.strerror})") from None
    with stream:
        yield stream
    draft.replace(path)


def _choose_opener(suffix: str) -> Callable[..., TextIO]:
    if suffix == ".zst":
        import zstandard

        return zstandard.open
    return gzip.open if suffix == ".gz" else open
