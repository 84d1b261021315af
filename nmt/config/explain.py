"""Explain the errors of Hydra, OmegaConf and YAML in one line that names the key."""

import errno
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.errors import (
    ConfigCompositionException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from nmt.config.allowed_targets import broken_at
from nmt.config.overrides import MULTIRUN, quoted
from nmt.config.schema import CONFIGURATIONS, choices
from nmt.errors import UserError, closest, first_line

WANTS_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


def explain(error: BaseException) -> str:
    """One line that names the key or place, and what is allowed."""
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, UserError):
            return str(cause)
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f"{cause.filename}: " if cause.filename else ""
            return f"{where}{cause.strerror}; once there is room, give the same command again"
        if isinstance(cause, OSError) and (said := _folder_given(cause)):
            return f"{said}: cannot be written ({cause.strerror})"
    for cause in chain:
        if explained := _explain_configuration(cause):
            return explained
    return _unforeseen(error)


def _folder_given(error: OSError) -> str | None:
    """The argument that names the folder which Hydra could not make."""
    for argument in sys.argv[1:]:
        key, _, folder = argument.partition("=")
        names_it = error.filename and Path(folder.strip("'\"")).is_relative_to(error.filename)
        if key in ("hydra.run.dir", "hydra.sweep.dir") and names_it:
            return argument
    return None


def _unforeseen(error: BaseException) -> str:
    *_, first = _causes(error)
    return f"{type(first).__name__}: {first_line(first)}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _explain_configuration(error: BaseException) -> str | None:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = error.missing_cfg_file.rpartition("/")
        known = [option for option in error.options or [] if not option.startswith("_")]
        if group.startswith("experiment"):  # a recipe is named with its paper's folder
            group, choice = "experiment", error.missing_cfg_file.removeprefix("experiment/")
            known = choices(group)
        plugin = " (is the package with it installed?)" if group.startswith("hydra/") else ""
        plugin = " (pip install -r requirements-optuna.txt)" if choice == "optuna" else plugin
        return f"{group}={choice}: no such choice; there are {', '.join(known)}{closest(choice, known)}{plugin}"
    if isinstance(error, ValueError) and "Config group override" in str(error):
        return _explain_group()
    if isinstance(error, ConfigCompositionException) and (
        several := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '(.*)'", str(error))
    ):
        key = several[1].partition("=")[0]
        return f"{several[1]}: several values: to sweep over them add -m, a list is {key}=[…,…], a number has a point"
    if isinstance(error, OverrideParseException):
        return _explain_argument(error.override, first_line(error))
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        said = ", ".join(filter(None, (error.context, error.problem)))
        return f"{error.problem_mark.name}, line {error.problem_mark.line + 1}: {said}"
    if isinstance(error, ConfigCompositionException) and (part := re.search(r"override '(\w+)/(\w+)'. No", str(error))):
        return f"{part[1]}/{part[2]}: the {part[1]} chosen has no {part[2]}; leave it out, or choose another {part[1]}"
    if isinstance(error, ConfigCompositionException) and (part := re.search(r"override '(\w+)'\. No", str(error))):
        return f"{part[1]}: none is chosen by default, so a choice is added: +{part[1]}=…"
    if isinstance(error, ConfigCompositionException) and (
        added := re.match(r"Multiple values for (\S+)\. .* \S+: (\S+)'", str(error))
    ):
        return f"+{added[1]}={added[2]}: {added[1]} stands in the defaults already; leave out the +"
    if isinstance(error, ConfigCompositionException) and (there := re.search(r"item is already at '(.*)'", str(error))):
        return f"{there[1]}: there is such a key already; leave out its +"
    if isinstance(error, ConfigCompositionException) and isinstance(error.__cause__, OmegaConfBaseException):
        return None  # the cause knows more
    if isinstance(error, InstantiationException):
        return _explain_instantiation(error)
    if "--resolve" in sys.argv and "hydra.runtime.output_dir" in str(error):
        return "--resolve: a run has no folder before it begins; resolve a part that does not name it: -p trainer"
    if isinstance(error, OmegaConfBaseException):
        return _explain_key(error)
    return None


def _explain_argument(argument: str, reason: str) -> str:
    """What Hydra's grammar does not read, and how it is quoted."""
    key, _, value = argument.partition("=")
    said = f"cannot read the argument {argument}" + ("" if reason.startswith("Lexer") else f": {reason}")
    if value.startswith(("[", "{")):
        inner = """; what has = in its value needs quotes inside the shell's: 'KEY=["a=b"]'"""
        return said + (inner if "=" in value else "")
    if not value or " " in key:
        return said
    inner = quoted(value) if re.search(r'["\\]', value) else f'"{value}"'
    return f"{said}; such a value needs quotes inside the shell's: {shlex.quote(f'{key}={inner}')}"


def _explain_group() -> str:
    """Which argument names a choice that its group has not."""
    for argument in sys.argv[1:]:
        group, _, choice = argument.partition("=")
        group = group.lstrip("+")
        if group and (CONFIGURATIONS / group).is_dir() and choice not in (known := choices(group)):
            return f"{group}={choice}: no such choice; there are {', '.join(known)}"
    return "an argument has no key before its =: arguments are KEY=VALUE or GROUP=CHOICE"


def _explain_key(error: OmegaConfBaseException) -> str:
    if "not in struct" in str(error) and isinstance(error.parent_node, DictConfig):
        place = str(error.full_key).rpartition(".")[0]
        siblings = [str(key) for key in error.parent_node if not str(key).startswith(("_", "hydra"))]
        if not siblings and (known := choices(place)):
            chosen = f"{place.replace('.', '/')}={'|'.join(known)}"
            sweeping = MULTIRUN & set(sys.argv)
            hint = f", or, {_where_all_have(error)}" if sweeping else ""
            return f"{error.full_key}: {place} is not chosen; do so with {chosen}{hint}"
        where = (f"{place} has" if place else "there are") if siblings else f"{place} has none"
        hint = closest(str(error.key), siblings) or _further_down(str(error.key), error.parent_node)
        others = not str(error.parent_node.get("_target_", "nmt.")).startswith("nmt.")  # takes what is not listed
        if not hint and (others or place in ("data.tests", "callbacks", "logger")):
            hint = f" (a new one is added by a +: +{error.full_key})"
        said = f"{error.full_key}: no such key{hint}; {where} {', '.join(siblings)}".rstrip()
        group = _swept(str(error.full_key))
        return f"{said} (of one choice of {group}); {_where_all_have(error)}" if group else said
    return f"{error.full_key}: {first_line(error)}" if error.full_key else first_line(error)


def _where_all_have(error: OmegaConfBaseException) -> str:
    return f"where every choice that is swept has it, write ++{error.full_key}=…"


def _swept(key: str) -> str | None:
    """The group of which several choices are swept, and each may have other keys beside this one."""
    for argument in sys.argv[1:] if MULTIRUN & set(sys.argv) else ():
        group, _, chosen = argument.lstrip("+").partition("=")
        if key.startswith(f"{group.replace('/', '.')}.") and "," in chosen and choices(group):
            return group
    return None


def _further_down(name: str, node: DictConfig) -> str:
    """Where there are keys of this name."""
    found = list(_places(name, OmegaConf.to_container(node)))
    return f" (did you mean {' or '.join(found[:3])}?)" if found else ""


def _places(name: str, node: Any, place: str = "") -> Iterator[str]:
    for key, branch in node.items() if isinstance(node, dict) else ():
        if key == name and place:
            yield f"{place}{key}"
        yield from _places(name, branch, f"{place}{key}.")


def _explain_instantiation(error: InstantiationException) -> str | None:
    place = re.search(r"full_key: (\S+)", str(error))
    where = place[1].removeprefix("model.") if place else "the configuration"
    if where.startswith("decoder.attention"):
        where = where.removeprefix("decoder.")
    if target := re.search(r"Error locating target '(.*?)'", str(error)):
        *_, cause = _causes(error)
        why = broken_at(cause) or f"cannot be imported ({first_line(cause)})"
        return f"{where}._target_={target[1]}: {why}"
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error)):
        return f"{where}.{unknown[1]}: no such setting here"
    if absent := re.search(r"missing \d+ required .*", str(error)):
        names = re.findall(r"'(\w+)\\?'", absent[0])
        return f"{where}: needs {', '.join(names)}"
    return f"{where}: {first_line(error.__cause__ or error)}"
