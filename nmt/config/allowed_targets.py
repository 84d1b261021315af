"""What a stored configuration may name and refer to: opening a run must not run, fetch or tell anything else."""

import re
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra.utils

from nmt.errors import UserError, first_line

PACKAGE = str(Path(__file__).parents[1])
TRUSTED = ("nmt.model.", "nmt.data.", "torch.nn.init.")
READ = ("model", "data")  # of a stored configuration, with what these refer to
# What stored settings may refer to: each other, sizes computed from them, and where data lie; nothing else of whoever
# opens the run: no other variable of the environment, which may be a secret.
REFERRED = r"(?:(?:twice|half|default):|oc\.env:NMT_(?:DATA|CACHE)[,}]|(?P<section>\w+)[.\w]*\})"
REFERENCE = re.compile(rf"\$\{{{REFERRED}")


def check_references(config: Mapping[str, Any]) -> None:
    """Of a configuration as composed; asked before training too, so that no run is made that cannot be opened."""
    waiting, seen = list(READ), set()
    while waiting:
        section = waiting.pop()
        seen.add(section)
        for place, text in _strings(config.get(section), section):
            for begin in re.finditer(r"\$\{", text):
                reference = REFERENCE.match(text, begin.start())
                if reference is None:
                    raise UserError(
                        f"{place}={text}: refused; a run's settings may refer to each other, and to NMT_DATA and "
                        "NMT_CACHE in the environment; write the value itself"
                    )
                if (other := reference["section"]) and other not in (*seen, *waiting):
                    waiting.append(other)


def _strings(node: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, str):
        yield where, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _strings(value, f"{where}.{key}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            yield from _strings(value, f"{where}[{index}]")


def trust(node: Any, where: str = "model") -> None:
    """A stored configuration may only name what this project is made of: loading a run must not run something else."""
    if isinstance(node, Mapping):
        target = node.get("_target_")
        if broken := _broken(str(target)):
            raise UserError(f"{where}._target_={target}: {broken}")
        if target is not None and not _trusted(str(target)):
            absent = _absent(str(target)) if str(target).startswith(TRUSTED) else None
            why = f"; there is no such class ({absent})" if absent else ""
            raise UserError(f"{where}._target_={target}: refused; a run may only name {', '.join(TRUSTED)}…{why}")
        for key, value in node.items():
            trust(value, f"{where}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            trust(value, f"{where}[{index}]")
    elif isinstance(node, str) and "${" in node:
        raise UserError(f"{where}={node}: refused; this would be computed a second time")


def _broken(target: str) -> str | None:
    """Where in this project, and why, what is to be imported for it fails."""
    if not target.startswith(TRUSTED):
        return None
    try:
        import_module(target.rpartition(".")[0])
    except Exception as error:
        return broken_at(error)
    return None


def broken_at(error: BaseException) -> str | None:
    """Where in this project, and why, an import failed; None where it failed because there is no such module."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE) and frame.filename != __file__]
    if not ours:
        return None
    return f"{ours[-1].filename}, line {ours[-1].lineno}: {type(error).__name__}: {first_line(error)}"


def _absent(target: str) -> str | None:
    """Why it is not there; None where it is."""
    try:
        hydra.utils.get_object(target)
    except Exception as error:
        return first_line(error.__cause__ or error)
    return None


def _trusted(target: str) -> bool:
    """By name, and by where the thing is defined: nmt.model.encoder.torch.hub.load is not of this project. Of this
    package classes alone: its functions also fetch, write and remove."""
    if not target.startswith(TRUSTED):
        return False
    try:
        found = hydra.utils.get_object(target)
    except Exception:
        return False
    of = str(getattr(found, "__module__", None))
    return of == "torch.nn.init" or (isinstance(found, type) and of.startswith(TRUSTED))
