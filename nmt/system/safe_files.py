"""Read files that anyone may have written, as plain values, or raise an error that says why not.

Nothing in a file is executed. Deep nesting, YAML aliases and huge numbers are refused.
"""

import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

MAX_DEPTH = 50  # of JSON and YAML
MAX_NUMBER = 10**18
# bytes, far beyond files of real runs, because values take many times the memory of their text
MOST_TEXT, MOST_JSON, MOST_YAML = 2**27, 2**24, 2**20
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableError(Exception):
    """The reason why a run, or a part of it, cannot be shown; the message is shown to the user."""


def read_json(path: Path, where: str = "") -> dict[str, Any]:
    """Return the JSON object of a file, which errors call `where`."""
    where = where or path.name
    try:
        content = json.loads(read_text(path, where, MOST_JSON))
    except (ValueError, RecursionError):
        raise UnreadableError(f"{where} is not JSON") from None
    if not isinstance(content, dict):
        raise UnreadableError(f"{where} is not a JSON object")
    return _plain(content, where)


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file."""
    where = f"{path.parent.name}/{path.name}"
    text = read_text(path, where, MOST_YAML)
    try:
        _check_events(yaml.parse(text, Loader=YAML), where)
        content = yaml.load(text, Loader=YAML)
    except (yaml.YAMLError, LookupError, TypeError, ValueError, RecursionError):
        raise UnreadableError(f"{where} is not YAML") from None
    return _plain(content, where)


def _check_events(events: Iterator[yaml.Event], where: str) -> None:
    """Refuse aliases and deep nesting before anything is built of them."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableError(f"{where} repeats parts of itself, which may never end")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UnreadableError(f"{where} is nested more than {MAX_DEPTH} times")


def _plain(node: Any, where: str, depth: int = 0) -> Any:
    """Return only types that JSON has, because YAML also has dates and bytes."""
    if depth > MAX_DEPTH:
        raise UnreadableError(f"{where} is nested more than {MAX_DEPTH} times")
    if isinstance(node, Mapping):
        return {str(_plain(key, where, depth + 1)): _plain(value, where, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, where, depth + 1) for value in node]
    if isinstance(node, int) and abs(node) >= MAX_NUMBER:
        raise UnreadableError(f"{where} holds a number of more than 18 figures")
    return node if isinstance(node, str | int | float) or node is None else str(node)


def check_regular(path: Path) -> None:
    """Raise an OSError for a pipe or a device, because reading it may never end, or only work once."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(path))


def inside(folder: Path, name: str | Path) -> Path:
    """Return the path of a file in a run's folder; raise UnreadableError if a link leads out of the folder.

    Such a link could show any file of the user. The folder itself may be a link.
    """
    path, top = folder / name, Path(os.path.realpath(folder))
    real = Path(os.path.realpath(path))
    # because the hub's cache keeps files in blobs/, and links to them from snapshots/COMMIT/
    is_blob = top.parent.name == "snapshots" and real.parent == top.parents[1] / "blobs"
    if not (real.is_relative_to(top) or is_blob):
        raise UnreadableError(f"{name} is a link out of its folder. Fix: copy the file there")
    return path


def read_text(path: Path, where: str, most: int = MOST_TEXT) -> str:
    """Return the text of a file of at most so many bytes; errors call it `where`."""
    try:
        check_regular(path)
        if (size := path.stat().st_size) > most:
            raise UnreadableError(f"{where} has {size} bytes, and may have {most}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnreadableError(f"has no {where}") from None
    except UnicodeDecodeError:
        raise UnreadableError(f"{where} is not text") from None
    except OSError as error:
        raise UnreadableError(f"{where} cannot be read ({error.strerror})") from None


def read_or_note(read: Callable[[], Any], loss: str, default: Any) -> tuple[Any, tuple[str, ...]]:
    """Return what `read` returns and no note, or the default and a note of what is lost."""
    try:
        return read(), ()
    except UnreadableError as error:
        return default, (f"{error}: {loss}",)


def is_number(value: Any) -> bool:
    """Return True for numbers whose squares can be summed; infinity, NaN, True and False are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


def make_json_safe(node: Any) -> Any:
    """Replace what JSON cannot hold: infinity and NaN by null, halves of characters by a question mark."""
    if isinstance(node, Mapping):
        return {make_json_safe(key): make_json_safe(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [make_json_safe(value) for value in node]
    if isinstance(node, str):
        return node.encode(errors="replace").decode()
    return None if isinstance(node, float) and not math.isfinite(node) else node
