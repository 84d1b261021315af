"""Fingerprints of the code that trains a run: a digest for each class that its configuration names.

A digest covers the definition of the class, and every definition of `nmt.model`, `nmt.training`, the code of batches
and the user's folder that it refers to, directly or not. Comments, docstrings and layout do not count. So a new class
changes no fingerprint of a run that does not use it.
"""

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nmt.config.installation import PACKAGE
from nmt.config.user_dir import find_module_file
from nmt.errors import user_folders

COVERED = re.compile(r"nmt\.(model|training|data\.(batches|batch_plan|candidate_lists|given_links))(\.\w+)*")  # modules
ALWAYS = ("nmt.training.experiment.train", "nmt.data.batches.BatchLoader")  # refer to all code of training and batches
TARGET = re.compile(r"_target_: ([\w.]+)")

Definition = tuple[str, str]  # module and name


def code_version(config: DictConfig) -> dict[str, str]:
    """Return a digest of the code behind each class that a configuration names, and of training and batches."""
    targets = TARGET.findall(OmegaConf.to_yaml(config))
    return {target: digest for target in sorted({*targets, *ALWAYS}) if (digest := digest_of(target))}


def is_of_this_code(versions: Sequence[Any]) -> bool:
    """Return whether the installed code is the code that finished the run's training."""
    if not versions:
        return True
    last = versions[-1]
    return isinstance(last, Mapping) and all(digest_of(target) == digest for target, digest in last.items())


def is_same_code(first: Any, second: Any) -> bool:
    """Return whether two runs were trained by the same code, as far as they use the same classes."""
    if not (_are_versions(first) and _are_versions(second) and len(first) == len(second)):
        return first == second
    pairs = zip(first, second, strict=True)
    return all(one[target] == other[target] for one, other in pairs for target in one.keys() & other.keys())


def _are_versions(versions: Any) -> bool:
    return isinstance(versions, list) and all(isinstance(version, Mapping) for version in versions)


@cache
def digest_of(target: str) -> str | None:
    """Return the digest of a class or function by its path; None if it is not code of models or training."""
    module, _, name = target.rpartition(".")
    if name not in _definitions(module):
        return None
    digest = hashlib.blake2b(digest_size=8)
    for definition in sorted(_reach((module, name))):
        digest.update(_definitions(definition[0])[definition[1]].encode())
    return digest.hexdigest()


def _reach(start: Definition) -> set[Definition]:
    """Return a definition and all that it refers to, directly or not."""
    reached, waiting = set(), [start]
    while waiting:
        definition = waiting.pop()
        if definition not in reached:
            reached.add(definition)
            waiting.extend(_references(*definition))
    return reached


@cache
def _references(module: str, name: str) -> frozenset[Definition]:
    return frozenset(_find_references(module, name))


def _find_references(module: str, name: str) -> Iterator[Definition]:
    imported = _imports(module)
    for word in set(re.findall(r"[^\W\d]\w*", _definitions(module)[name])):
        if word in _definitions(module):
            yield module, word
        elif word in imported:
            source, original = imported[word]
            if original in _definitions(source):
                yield source, original
            else:  # a module, imported as a whole
                imported_module = f"{source}.{original}".lstrip(".")
                yield from ((imported_module, each) for each in _definitions(imported_module))


@cache
def _definitions(module: str) -> dict[str, str]:
    """Return the source of each name that a module defines at its top level; nothing for a module not covered."""
    definitions: dict[str, list[str]] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        else:
            names = []
        for name in names:
            definitions.setdefault(name, []).append(ast.unparse(node))
    return {name: "\n".join(sources) for name, sources in definitions.items()}


@cache
def _imports(module: str) -> dict[str, Definition]:
    """Return the module and the original name of each name that a module imports."""
    names: dict[str, Definition] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom):
            source = _find_source(node, module)
            names |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                source, _, original = alias.name.rpartition(".")
                names[alias.asname or alias.name.partition(".")[0]] = source, original
    return names


def _find_source(node: ast.ImportFrom, module: str) -> str:
    """Return the full name of the module from which a module imports."""
    is_package = _find_file(module).name == "__init__.py"
    above = module.split(".")[: is_package - node.level or None] if node.level else []
    return ".".join(filter(None, [*above, node.module]))


@cache
def _tree(module: str) -> ast.Module:
    file = _find_file(module)
    return strip_comments(file.read_text(encoding="utf-8")) if file else ast.Module([], [])


def _find_file(module: str) -> Path | None:
    """Return the file of a module of models, training or the user; None for a module not covered."""
    if COVERED.fullmatch(module):
        return find_module_file(module.partition(".")[2], [PACKAGE])
    return find_module_file(module, user_folders)


def strip_comments(source: str) -> ast.Module:
    """Return the syntax tree of a program without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
