"""Files that are whole or not there: they are written beside their place and moved there."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from nmt.errors import ConfigurationError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A draft to write, which takes `path`'s place at the end; on an error nothing of it stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")  # another process may be writing the same file
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def writable(folder: Path, said: str, elsewhere: str = "") -> Path:
    """Made where it is not there. `said`: the KEY=PATH that names it; `elsewhere`: what names another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ConfigurationError(f"{said}: cannot be written ({error.strerror}){elsewhere}") from None
