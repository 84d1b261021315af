"""Files that anyone may have written: their text, JSON and YAML as plain values, or the reason why they are not read.

Nothing in them is run; what nests too deep, repeats parts of itself or holds too large a number is refused.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DEEPEST_NODE = 50  # of JSON and YAML
LARGEST = 10**18  # whole number
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableError(Exception):
    """Why a run, or a part of it, cannot be shown; in words for those who look for it."""


def read_json(path: Path, where: str = "") -> dict[str, Any]:
    where = where or path.name
    try:
        content = json.loads(read_text(path, where))
    except (ValueError, RecursionError):
        raise UnreadableError(f"{where} is not JSON") from None
    if not isinstance(content, dict):
        raise UnreadableError(f"{where} is not a JSON object")
    return _plain(content, where)


def read_yaml(path: Path) -> Any:
    where = f"{path.parent.name}/{path.name}"
    text = read_text(path, where)
    try:
        _check_events(yaml.parse(text, Loader=YAML), where)
        content = yaml.load(text, Loader=YAML)
    except (yaml.YAMLError, LookupError, TypeError, ValueError, RecursionError):
        raise UnreadableError(f"{where} is not YAML") from None
    return _plain(content, where)


def _check_events(events: Iterator[yaml.Event], where: str) -> None:
    """Refuses aliases and deep nesting before anything is built of them."""
    deep = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableError(f"{where} repeats parts of itself, which may never end")
        deep += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if deep > DEEPEST_NODE:
            raise UnreadableError(f"{where} is nested more than {DEEPEST_NODE} times")


def _plain(node: Any, where: str, deep: int = 0) -> Any:
    """What JSON has, too: YAML also knows days and bytes."""
    if deep > DEEPEST_NODE:
        raise UnreadableError(f"{where} is nested more than {DEEPEST_NODE} times")
    if isinstance(node, Mapping):
        return {str(_plain(key, where, deep + 1)): _plain(value, where, deep + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, where, deep + 1) for value in node]
    if isinstance(node, int) and abs(node) >= LARGEST:
        raise UnreadableError(f"{where} holds a number of more than 18 figures")
    return node if isinstance(node, str | int | float) or node is None else str(node)


def read_text(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnreadableError(f"has no {where}") from None
    except UnicodeDecodeError:
        raise UnreadableError(f"{where} is not text") from None
    except OSError as error:
        raise UnreadableError(f"{where} cannot be read ({error.strerror})") from None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def showable(node: Any) -> Any:
    """JSON has no infinity, and halves of characters are no text."""
    if isinstance(node, Mapping):
        return {showable(key): showable(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [showable(value) for value in node]
    if isinstance(node, str):
        return node.encode(errors="replace").decode()
    return None if isinstance(node, float) and not math.isfinite(node) else node
