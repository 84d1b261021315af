"""Files and paths. An atomic write makes a temporary file beside the place, then renames it."""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from nmt.errors import ConfigurationError
from nmt.system.safe_files import make_json_safe


def to_path(text: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder in place of ~, as files of settings and Python have it."""
    return Path(os.path.expanduser(text))


def suggest_path(path: Path) -> str:
    """Return " (did you mean …?)" with the folder or checkpoint most like the first missing part of a path."""
    for place in (*reversed(path.parents), path):
        if not os.path.exists(place):
            siblings = [other for other in place.parent.glob("*") if os.path.isdir(other) or other.suffix == ".ckpt"]
            similar = get_close_matches(place.name, [other.name for other in siblings], n=1)
            return f" (did you mean {place.with_name(similar[0])}?)" if similar else ""
    return ""


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Name the path in the error of a full disk, which names none."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = error.filename or str(path)
        raise


def random_suffix() -> str:
    """Return a suffix for a temporary name: no other process has it, and nobody can plant a link there."""
    return secrets.token_hex(4)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` at the end; after an error `path` is as before."""
    draft = path.with_name(f".{path.name}.{random_suffix()}")
    try:
        with name_in_errors(path):
            yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder, which is renamed to `path` at the end; after an error there is no folder."""
    draft = path.with_name(f".{path.name}.{random_suffix()}")
    draft.mkdir(parents=True)
    try:
        yield draft
        draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, dump_json(content, indent=2) + "\n")


def dump_json(content: Any, **layout: Any) -> str:
    """Return JSON that every program reads: infinity and NaN, which JavaScript refuses, become null."""
    return json.dumps(make_json_safe(content), ensure_ascii=False, allow_nan=False, **layout)


def cache_folder() -> Path:
    """Return the folder of what is computed once: NMT_CACHE, or .cache/nmt."""
    return to_path(os.environ.get("NMT_CACHE") or ".cache/nmt")


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, out to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(folder: Path, setting: str, hint: str = "") -> None:
    """Check that files can be written to a folder, before hours of work. No folder is made.

    Args:
        folder: the folder.
        setting: the KEY=PATH that names it, for the message.
        hint: the end of the message, which tells how to name another folder.
    """
    try:
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ConfigurationError(f"{setting}: cannot be written ({error.strerror}){hint}") from None
