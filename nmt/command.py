"""The command line: verbs that read KEY=VALUE, and errors in plain words."""

import errno
import functools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import (
    ConfigCompositionException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

import nmt.resolvers  # noqa: F401 – the configuration files use them
from nmt.errors import ConfigurationError, UserError, closest, first_line
from nmt.folder import OVERRIDES, give_back_composition
from nmt.kinds import CONFIGURATIONS, check_composed, check_kinds, choices, misfit
from nmt.trust import REFERRED, broken_at

# Overrides of a run that may be somebody else's: none that calls what it names, reads the environment, is an option, or
# says where files are written.
PLACES = (
    r"logger[.=].*(?:path|dir)|callbacks[.=].*path|data[.=].*cache|pretraining_folder|(?:name|sweep)=\W*(?:/|.*\.\.)"
)
FOREIGN = re.compile(rf"^[+~]*(?:-|hydra\b|{PLACES})|_target_|\$\{{(?!{REFERRED})")
OF_SWEEPS = re.compile(r"^\+*(?:table|hparams_search)=")  # which a run was a job of
MULTIRUN = {"-m", "--multirun"}
WANTS_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


def _groups_with_choices() -> str:
    """For --help; files that begin with _ are what others build on, not choices."""
    folders = {path.parent for path in CONFIGURATIONS.rglob("[!_]*.yaml")} - {CONFIGURATIONS}
    names = sorted(folder.relative_to(CONFIGURATIONS).as_posix() for folder in folders)
    groups = [name for name in names if not name.startswith(("hydra", "experiment/"))]
    return "\n".join(f"{name}: {', '.join(choices(name))}" for name in groups)


OmegaConf.register_new_resolver("groups_with_choices", _groups_with_choices, replace=True)


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Errors as one line on standard error and an exit code; HYDRA_FULL_ERROR=1 shows the traceback."""
    if WANTS_TRACEBACK:
        yield
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then lets errors through to here
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        sys.exit(f"error: {explain(error)}")


def leaves_at_once(job: Callable[[DictConfig], Any]) -> Callable[[DictConfig], Any]:
    """A single run's error is explained and ends the program; in a sweep Hydra goes on to the other jobs first."""

    @functools.wraps(job)
    def guarded(config: DictConfig) -> Any:
        is_single = HydraConfig.get().mode == RunMode.RUN
        if is_single and not WANTS_TRACEBACK:  # or the ranks it starts take what was set for Hydra for the user's wish
            os.environ.pop("HYDRA_FULL_ERROR", None)
        try:
            check_kinds(HydraConfig.get().overrides.task)
            check_composed(config)
            return job(config)
        except Exception as error:
            give_back_composition(Path(HydraConfig.get().runtime.output_dir))
            if not is_single or WANTS_TRACEBACK:
                raise
            sys.exit(f"error: {explain(error)}{_more_of(error)}")

    return guarded


def _more_of(error: BaseException) -> str:
    """Where the traceback is of what nobody foresaw."""
    log = Path(HydraConfig.get().runtime.output_dir) / "train.log"
    return f" (traceback: {log})" if explain(error) == _unforeseen(error) and log.is_file() else ""


def sweep_first(arguments: list[str]) -> list[str]:
    """-m may stand anywhere: after KEY=VALUEs nothing more of them would be read. Jobs of sweeps, and stages, are
    composed from config.yaml alone."""
    for argument in arguments:
        if re.match(r"(--config-name|-cn)\b", argument):
            raise ConfigurationError(
                f"{argument}: settings of your own are an experiment; put them into DIR/experiment/NAME.yaml and give "
                "--config-dir DIR experiment=NAME"
            )
        if argument in ("hydra.run.dir=", "hydra.sweep.dir="):  # Hydra would write to where the user works
            raise ConfigurationError(f"{argument}: names no folder; leave it out, or give one")
    flags = [argument for argument in arguments if argument in MULTIRUN]
    return [*flags, *(argument for argument in arguments if argument not in flags)]


def repeating(arguments: list[str]) -> list[str]:
    """run=FOLDER stands for all the overrides of that run; what is given beside it comes after them."""
    named = [argument.removeprefix("run=") for argument in arguments if argument.startswith("run=")]
    if not named:
        return arguments
    folder = Path(named[-1])
    try:
        overrides = OmegaConf.to_container(OmegaConf.load(folder / OVERRIDES))
    except FileNotFoundError as error:
        raise UserError(f"run={folder}: no {OVERRIDES} there; name the folder of a run to repeat") from error
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"run={folder}: its {OVERRIDES} cannot be read ({first_line(error)})") from error
    if not isinstance(overrides, list):
        raise UserError(f"run={folder}: its {OVERRIDES} is not a list of KEY=VALUE")
    for override in overrides:
        if any(map(FOREIGN.search, _with_those_of_a_stage(str(override)))):
            raise UserError(f"run={folder}: refused to repeat {override}; where you trust it, write it yourself")
    own = [override for override in overrides if not OF_SWEEPS.match(str(override))]
    others = [argument for argument in arguments if not argument.startswith("run=")]
    return [*own, f"repeats={quoted(folder.absolute())}", *others]


def _with_those_of_a_stage(override: str) -> list[str]:
    """pretraining={overrides: [KEY=VALUE, …]} has overrides within."""
    is_of_a_stage = re.match(r"[+~]*pretraining\b", override)
    within = re.split(r"[\s\[\]{},]+", re.sub(r"['\"\\]", "", override)) if is_of_a_stage else []
    return [override, *within]


def quoted(path: Path | str) -> str:
    """For Hydra's grammar, in which = and , have a meaning, and \\ has one before a quote alone."""
    text = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), str(path))
    return f"'{text}'"


def defaults_of(name: str) -> DictConfig:
    """The settings of a verb: those that its `defaults` name, and its own."""
    own = OmegaConf.load(CONFIGURATIONS / f"{name}.yaml")
    return OmegaConf.merge(*map(defaults_of, own.pop("defaults", [])), own)


def read_arguments(
    name: str, arguments: list[str], usage: str, *, takes_data: bool = False
) -> tuple[DictConfig, list[str]]:
    """KEY=VALUE arguments over conf/NAME.yaml; with `takes_data` those that begin with `data.` are
    given back as they are, for the run's own data settings."""
    if any(argument in ("-h", "--help", "help") for argument in arguments):
        print(usage.strip())
        sys.exit(0)
    known = defaults_of(name)
    OmegaConf.set_struct(known, True)
    for argument in arguments:
        if "=" not in argument:
            raise ConfigurationError(f"{argument}: arguments are KEY=VALUE, such as run=FOLDER; --help says more")
    of_data = [argument for argument in arguments if takes_data and argument.startswith("data.")]
    if takes_data and (named := [argument for argument in arguments if argument.startswith("test=")]):
        raise ConfigurationError(f"{named[0]}: no such key; a test set is chosen by data.{named[0]}")
    given = OmegaConf.from_dotlist([argument for argument in arguments if argument not in of_data])
    settings = OmegaConf.merge(known, given)
    for key, value in given.items():
        if wrong := misfit(key, value, known[key]):
            raise ConfigurationError(wrong)
    return settings, of_data


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
