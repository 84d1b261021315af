"""Check what a stored configuration names and refers to: to open a run must not run, fetch or reveal anything else."""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.config.user_dir import find_module_file
from nmt.errors import UserError, first_line, locate_error
from nmt.system.safe_files import MAX_DEPTH

ALLOWED = ("nmt.model.", "nmt.data.", "torch.nn.init.")
SECTIONS = ("model", "data", "search")  # of a stored configuration these are read, and the sections they refer to
# Stored settings may refer to each other, to computed sizes and to the place of the data. They may not refer to other
# environment variables, because these may be secrets.
COMPUTED, ENVIRONMENT = "(?:twice|half|default):", r"oc\.env:NMT_(?:DATA|CACHE)"
REFERENCE = re.compile(rf"\$\{{(?:{COMPUTED}|{ENVIRONMENT}[,}}]|(?P<section>\w+)[.\w]*\}})")
PATH = re.compile(r"\$\{(\w[.\w]*)\}")  # the key that a reference names, also inside ${twice:…}
MOST_VALUES = 20_000  # of a run; it has about 300


def check_references(config: Mapping[str, Any]) -> None:
    """Refuse forbidden references in a composed configuration; also before training, or the run could not be opened."""
    sections = list(SECTIONS)
    for section in sections:  # the loop also visits the sections that are appended in it
        for key, text in walk(config.get(section), section):
            for start in re.finditer(r"\$\{", text) if isinstance(text, str) else ():
                reference = REFERENCE.match(text, start.start())
                if reference is None:
                    raise UserError(
                        f"{key}={text}: refused, because a run's settings may refer only to each other, and to "
                        "NMT_DATA and NMT_CACHE in the environment. Fix: write the value itself"
                    )
                if reference["section"] and reference["section"] not in sections:
                    sections.append(reference["section"])


def check_size(node: Any, config: Any, sizes: dict[str | int, int], depth: int = 0) -> int:
    """Refuse settings that would fill the memory once resolved, because they repeat parts of themselves.

    Args:
        node: A part of the configuration, or all of it.
        config: The configuration.
        sizes: The sizes of the parts that were counted before.
        depth: The number of nodes and references that lead to the node.

    Returns:
        The number of values in the node after its references are resolved; a long text counts as several.
    """
    key = node if isinstance(node, str) else id(node)
    if key not in sizes and depth <= MAX_DEPTH:
        inner = sum(check_size(part, config, sizes, depth + 1) for part in _list_parts(node, config))
        sizes[key] = 1 + inner + (len(node) // 100 if isinstance(node, str) else 0)
    if sizes.get(key, MOST_VALUES) >= MOST_VALUES:
        raise UserError(
            f"its settings have more than {MOST_VALUES} values, or more than {MAX_DEPTH} levels, because they repeat "
            "parts of themselves. Fix: take another run"
        )
    return sizes[key]


def _list_parts(node: Any, config: Any) -> list[Any]:
    if isinstance(node, str):
        return [_find_node(config, path.split(".")) for path in PATH.findall(node)]
    if isinstance(node, Mapping):
        return [*node, *node.values()]
    return list(node) if isinstance(node, list | tuple) else []


def _find_node(node: Any, path: list[str]) -> Any:
    """Return the node at a path, or the reference on the way to it; None if there is neither."""
    for part in path:
        if isinstance(node, str):
            return node
        if isinstance(node, list | tuple):
            node = dict(enumerate(node)).get(int(part)) if part.isdecimal() else None
        else:
            node = node.get(part) if isinstance(node, Mapping) else None
    return node


def check_targets(
    node: Any, section: str = "model", user_dir: str | Path | None = None, run: Path | None = None
) -> None:
    """Refuse a resolved configuration that names anything but torch.nn.init, and classes of this project or the user.

    Args:
        node: A part of the configuration.
        section: Its key.
        user_dir: The folder of the user's classes, as the command names it.
        run: The folder of the run whose configuration it is.
    """
    for key, value in walk(node, section):
        if isinstance(value, str) and "${" in value:
            raise UserError(f"{key}={value}: refused, because it would be resolved a second time")
        if isinstance(value, Mapping) and value.get("_target_") is not None:
            target = str(value["_target_"])
            if refusal := _find_refusal(target, user_dir, run):
                raise UserError(f"{key}._target_={target}: {refusal}")


def walk(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield a node and everything below it, each with its key."""
    yield key, node
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from walk(value, f"{key}.{name}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            yield from walk(value, f"{key}[{index}]")


def _find_refusal(target: str, user_dir: str | Path | None, run: Path | None) -> str | None:
    """Return why a stored configuration may not name a target, or None if it may."""
    module, _, name = target.rpartition(".")
    file = _find_user_file(module, user_dir, run)
    if not (target.startswith(ALLOWED) or file):
        return _refuse(user_dir)
    try:
        imported = importlib.import_module(module)
        if file and not _is_imported_from(module, file):
            return f"refused, because the installed module {module} hides {file}. Fix: rename the file"
        named = getattr(imported, name)
    except Exception as error:
        if (place := locate_error(error, skip=__file__)) is not None:
            return place
        fix = "Fix: correct the name, or put back the code of the run"
        return f"refused, because there is no such class ({first_line(error)}). {fix}"
    # The place of the definition counts, because nmt.model.encoder.torch.hub.load begins like a name of this project.
    # Only classes are allowed, because functions also fetch, write and remove files.
    module = str(getattr(named, "__module__", None))
    file = _find_user_file(module, user_dir, run)
    is_ours = module.startswith(ALLOWED) or (file is not None and _is_imported_from(module, file))
    return None if module == "torch.nn.init" or (isinstance(named, type) and is_ours) else _refuse(user_dir)


def _find_user_file(module: str, user_dir: str | Path | None, run: Path | None) -> Path | None:
    """Return the user's file of a module; files in the part of `user_dir` that holds the run are the run's."""
    if user_dir is None:
        return None
    root, place = Path(user_dir).resolve(), None if run is None else run.resolve()
    if place is not None and place.is_relative_to(root):
        first = place.relative_to(root).parts[:1]  # empty if the run is `user_dir` itself
        if not first or module.split(".")[0] == first[0]:
            return None
    return find_module_file(module, [user_dir])


def _is_imported_from(module: str, file: Path) -> bool:
    imported = getattr(sys.modules.get(module), "__file__", None)
    return imported is not None and Path(imported).resolve() == file.resolve()


def _refuse(user_dir: str | Path | None) -> str:
    allowed = f"refused, because a run may only name {'…, '.join(ALLOWED)}…"
    if user_dir is None:
        return f"{allowed}. Fix: add user_dir=FOLDER if you trust it"
    return f"{allowed}, and classes that files in user_dir={user_dir} define, beside the run. Fix: correct the name"
