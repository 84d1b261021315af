"""The command line: verbs that read KEY=VALUE, and errors in plain words."""

import difflib
import errno
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    ConfigCompositionException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

import nmt.resolvers  # noqa: F401 – the configuration files use them
from nmt.errors import ConfigurationError, UserError, first_line
from nmt.trust import REFERRED

# Overrides of a run that may be somebody else's: none that calls what it names, reads the environment, is an option, or
# says where files are written.
PLACES = (
    r"logger[.=].*(?:path|dir)|callbacks[.=].*path|data[.=].*cache|pretraining_folder|(?:name|sweep)=\W*(?:/|.*\.\.)"
)
FOREIGN = re.compile(rf"^[+~]*(?:-|hydra\b|{PLACES})|_target_|\$\{{(?!{REFERRED})")
OF_SWEEPS = re.compile(r"^\+*(?:table|hparams_search)=")  # which a run was a job of
WANTS_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
CONFIGURATIONS = Path(__file__).parent.parent / "conf"


def _groups_with_choices() -> str:
    """For --help; files that begin with _ are what others build on, not choices."""
    folders = {path.parent for path in CONFIGURATIONS.rglob("[!_]*.yaml")} - {CONFIGURATIONS}
    names = sorted(folder.relative_to(CONFIGURATIONS).as_posix() for folder in folders)
    groups = [name for name in names if not name.startswith(("hydra", "experiment/"))]
    return "\n".join(f"{name}: {', '.join(_choices(name))}" for name in groups)


def _choices(group: str) -> list[str]:
    """A recipe is named with its paper's folder, which is no group of its own."""
    folder = CONFIGURATIONS / group.replace(".", "/")
    files = folder.rglob("[!_]*.yaml") if group == "experiment" else folder.glob("[!_]*.yaml")
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in files)


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
        try:
            return job(config)
        except Exception as error:
            if HydraConfig.get().mode == RunMode.MULTIRUN or WANTS_TRACEBACK:
                raise
            sys.exit(f"error: {explain(error)}")

    return guarded


def repeating(arguments: list[str]) -> list[str]:
    """run=FOLDER stands for all the overrides of that run; what is given beside it comes after them."""
    named = [argument.removeprefix("run=") for argument in arguments if argument.startswith("run=")]
    if not named:
        return arguments
    folder = Path(named[-1])
    try:
        overrides = OmegaConf.to_container(OmegaConf.load(folder / ".hydra" / "overrides.yaml"))
    except FileNotFoundError as error:
        raise UserError(f"run={folder}: no .hydra/overrides.yaml there; name the folder of a run to repeat") from error
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"run={folder}: its .hydra/overrides.yaml cannot be read ({first_line(error)})") from error
    if not isinstance(overrides, list):
        raise UserError(f"run={folder}: its .hydra/overrides.yaml is not a list of KEY=VALUE")
    for override in overrides:
        if FOREIGN.search(str(override)):
            raise UserError(f"run={folder}: refused to repeat {override}; where you trust it, write it yourself")
    own = [override for override in overrides if not OF_SWEEPS.match(str(override))]
    others = [argument for argument in arguments if not argument.startswith("run=")]
    return [*own, f"repeats={quoted(folder.absolute())}", *others]


def quoted(path: Path) -> str:
    """For Hydra's grammar, in which = and , have a meaning."""
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
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
    given = OmegaConf.from_dotlist([argument for argument in arguments if argument not in of_data])
    settings = OmegaConf.merge(known, given)
    for key, value in given.items():
        if wrong := _misfit_of(key, value, known[key]):
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
    for cause in chain:
        if explained := _explain_configuration(cause):
            return explained
    return _misfit() or f"{type(chain[-1]).__name__}: {first_line(chain[-1])}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _explain_configuration(error: BaseException) -> str | None:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = error.missing_cfg_file.rpartition("/")
        choices = [option for option in error.options or [] if not option.startswith("_")]
        if group.startswith("experiment"):  # a recipe is named with its paper's folder
            group, choice = "experiment", error.missing_cfg_file.removeprefix("experiment/")
            choices = _choices(group)
        plugin = " (is the package with it installed?)" if group.startswith("hydra/") else ""
        return f"{group}={choice}: no such choice; there are {', '.join(choices)}{_closest(choice, choices)}{plugin}"
    if isinstance(error, ValueError) and "Config group override" in str(error):
        return "an argument has no key before its =: arguments are KEY=VALUE or GROUP=CHOICE"
    if isinstance(error, OverrideParseException):
        return f"cannot read the argument {error.override}: {first_line(error)}"
    if isinstance(error, ConfigCompositionException) and (part := re.search(r"override '(\w+)/(\w+)'. No", str(error))):
        return f"{part[1]}/{part[2]}: the {part[1]} chosen has no {part[2]}; leave it out, or choose another {part[1]}"
    if isinstance(error, ConfigCompositionException) and (part := re.search(r"override '(\w+)'\. No", str(error))):
        return f"{part[1]}: none is chosen by default, so a choice is added: +{part[1]}=…"
    if isinstance(error, ConfigCompositionException) and isinstance(error.__cause__, OmegaConfBaseException):
        return None  # the cause knows more
    if isinstance(error, InstantiationException):
        return _explain_instantiation(error)
    if isinstance(error, OmegaConfBaseException):
        return _explain_key(error)
    return None


def _explain_key(error: OmegaConfBaseException) -> str:
    if "not in struct" in str(error) and isinstance(error.parent_node, DictConfig):
        place = str(error.full_key).rpartition(".")[0]
        siblings = [str(key) for key in error.parent_node if not str(key).startswith(("_", "hydra"))]
        if not siblings and (choices := _choices(place)):
            chosen = f"{place.replace('.', '/')}={'|'.join(choices)}"
            sweeping = {"-m", "--multirun"} & set(sys.argv)
            hint = f", or, where every choice that is swept has it, write ++{error.full_key}=…" if sweeping else ""
            return f"{error.full_key}: {place} is not chosen; do so with {chosen}{hint}"
        where = f"{place} has" if place else "there are"
        return f"{error.full_key}: no such key; {where} {', '.join(siblings)}{_closest(str(error.key), siblings)}"
    return f"{error.full_key}: {first_line(error)}" if error.full_key else first_line(error)


def _explain_instantiation(error: InstantiationException) -> str | None:
    place = re.search(r"full_key: (\S+)", str(error))
    where = place[1].removeprefix("model.") if place else "the configuration"
    if where.startswith("decoder.attention"):
        where = where.removeprefix("decoder.")
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error)):
        return f"{where}.{unknown[1]}: no such setting here"
    if absent := re.search(r"missing \d+ required .*argument.*?: (.*?)\\?[\"']*\)", str(error)):
        return f"{where}: needs {absent[1]}"
    return _misfit() or f"{where}: {first_line(error.__cause__ or error)}"


def _misfit() -> str | None:
    """The first KEY=VALUE of the command whose value is of another kind than the default."""
    if not (GlobalHydra.instance().is_initialized() and HydraConfig.initialized()):
        return None
    overrides = OverridesParser.create().parse_overrides(list(HydraConfig.get().overrides.task))
    groups = {path.name for path in CONFIGURATIONS.iterdir() if path.is_dir()}
    chosen = [override.input_line for override in overrides if override.get_key_element().strip("+~") in groups]
    defaults = compose("config", overrides=chosen)
    for override in overrides:
        key, value = override.key_or_group, override.value()
        if wrong := _misfit_of(key, value, OmegaConf.select(defaults, key)):
            return wrong
    return None


def _misfit_of(key: str, value: Any, default: Any) -> str | None:
    for kind, name in (((bool,), "true or false"), ((int, float), "a number")):
        if isinstance(default, kind) and value is not None and not isinstance(value, kind):
            return f"{key}={value}: {name} is expected (the default is {default})"
    return None


def _closest(word: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
