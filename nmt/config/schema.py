"""Check overrides and the user's files against the defaults: kinds of values, and keys that nothing reads.

YAML 1.2, which Hydra reads, takes yes, no, on and off for words, and Python takes every word for true.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf

from nmt.config.chosen_files import name_file
from nmt.config.diff import flatten_settings
from nmt.config.installation import CONF_DIR
from nmt.config.user_dir import list_conf_dirs
from nmt.errors import ConfigurationError, did_you_mean

ANY_KIND = ("trainer.devices", "deterministic", "trainer.deterministic")  # Lightning takes words for them too
FRACTIONS = ("trainer.limit_", "trainer.overfit_batches")  # a number of batches, or a fraction of all
RATES = ("dropout", "multi_avg_fn.decay", "label_smoothing")  # the ends of their keys
CLOSED_SECTIONS = ("size", "loss", "finite", "search", "vectors")  # only the keys of the defaults are read
PRETRAINING = {
    "experiment": "the name of an experiment",
    "without": "a list of groups",
    "overrides": "a list of KEY=VALUEs",
}


def list_choices(group: str) -> list[str]:
    """Return the choices of a group; an experiment is named with the folder of its paper."""
    pattern = "**/[!_]*.yaml" if group == "experiment" else "[!_]*.yaml"
    folders = [folder / group.replace(".", "/") for folder in list_conf_dirs()]
    files = {file.relative_to(folder) for folder in folders for file in folder.glob(pattern)}
    return sorted(file.with_suffix("").as_posix() for file in files)


def is_group(name: str) -> bool:
    """Return whether a name is that of a group: attention or attention/score, but not attention.score.bias."""
    return any((folder / name).is_dir() for folder in list_conf_dirs())


def load_defaults(command: str) -> DictConfig:
    """Return the settings of conf/COMMAND.yaml, and of the files that its `defaults` name."""
    settings = OmegaConf.merge(*(OmegaConf.load(CONF_DIR / f"{name}.yaml") for name in list_files(command)))
    settings.pop("defaults", None)
    return settings


def list_files(command: str) -> list[str]:
    """Return the names of the files in conf/ that hold the settings of a command, in Hydra's order."""
    names = OmegaConf.load(CONF_DIR / f"{command}.yaml").get("defaults", ["_self_"])
    return [command if name == "_self_" else name for name in names]


@cache
def load_setting_names() -> frozenset[str]:
    """Return the keys of conf/config.yaml; any other key without a dot is a group."""
    return frozenset(map(str, OmegaConf.load(CONF_DIR / "config.yaml"))) - {"defaults", "hydra"}


@cache
def load_known_settings() -> DictConfig:
    """Return conf/config.yaml with its closed sections, and its other groups as names; Hydra would take 0.4 s."""
    settings = OmegaConf.load(CONF_DIR / "config.yaml")
    choices = [default for default in settings.pop("defaults") if isinstance(default, DictConfig)]
    groups = {group: choice for default in choices for group, choice in default.items() if choice is not None}
    groups = {group: choice for group, choice in groups.items() if not group.startswith("override ")}
    size = OmegaConf.load(CONF_DIR / "size" / f"{groups['size']}.yaml")
    del settings["hydra"]
    return OmegaConf.merge(settings, groups | {"size": size, "search": load_defaults("search")})


def check_overrides(arguments: Sequence[str]) -> None:
    """Refuse a job's first override with a value of another kind than its default, or a new key that nothing reads."""
    overrides = OverridesParser.create().parse_overrides(list(arguments))
    try:
        defaults = _compose_defaults(
            tuple(override.input_line for override in overrides if is_group(override.key_or_group))
        )
    except HydraException:  # the choices go together only with the other overrides, so the defaults are unknown
        return
    for override in overrides:
        key = override.key_or_group
        if is_group(key) or override.is_delete() or key.startswith("hydra"):
            continue
        default = OmegaConf.select(defaults, key, throw_on_resolution_failure=False)
        problem = _find_unread(override, defaults) or find_misfit(key, override.value(), default)
        if problem:
            raise ConfigurationError(problem + _suggest_sweep(key, override.value()))


def _suggest_sweep(key: str, value: Any) -> str:
    """Return how to sweep over numbers if the value is written like a range, such as 1-3."""
    ends = re.fullmatch(r"(\d+)(?:-|:|\.\.)(\d+)", str(value))
    return f". Fix: -m '{key}=range({ends[1]},{int(ends[2]) + 1})'" if ends else ""


@cache
def _compose_defaults(chosen: tuple[str, ...]) -> DictConfig:
    return compose("config", overrides=list(chosen))


def _find_unread(override: Override, defaults: DictConfig) -> str | None:
    """Explain an added key that nothing reads, because it is probably misspelt."""
    if not (override.is_add() or override.is_force_add()):
        return None
    section, _, key = override.key_or_group.partition(".")
    if section in CLOSED_SECTIONS and key:
        return _explain_unread(key, section, defaults[section]) if key not in defaults[section] else None
    return _explain_unread(section, "", defaults) if section not in defaults else None


def _explain_unread(key: str, section: str, defaults: Iterable[Any]) -> str:
    known = [name for name in map(str, defaults) if not name.startswith("_")]
    full_key, fix = (f"{section}.{key}", f". Fix: choose {', '.join(known)}") if section else (key, "")
    return f"{full_key}: no such key{name_file(full_key)}, nothing reads it{did_you_mean(key, known)}{fix}"


def check_composed_config(config: DictConfig) -> None:
    """Refuse keys that nothing reads in what the configuration files, also the user's, compose."""
    defaults = load_known_settings()
    text = OmegaConf.to_yaml(config)
    for key in map(str, config):
        if key not in defaults and key != "hydra" and not _is_variable(key, text):
            raise ConfigurationError(_explain_unread(key, "", defaults))
    for section in CLOSED_SECTIONS:
        check_section(section, config.get(section), defaults[section], text)
    _check_pretraining(config.pretraining)


def check_section(section: str, settings: Any, known: Mapping[str, Any], text: str = "") -> None:
    """Refuse values of another kind than the default, and keys that neither code nor a reference in `text` reads."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(find_misfit(section, settings, known) or f"{section}=null: must have settings")
    for key in map(str, settings):
        if key in known:
            problem = find_misfit(f"{section}.{key}", settings[key], known[key])
        else:
            problem = None if _is_variable(key, text) else _explain_unread(key, section, known)
        if problem:
            raise ConfigurationError(problem)


def check_rates(settings: Mapping[str, Any]) -> None:
    """Check each rate where it is written, not where another setting refers to it."""
    for key, rate in flatten_settings(settings).items():
        if key.endswith(RATES) and isinstance(rate, int | float) and not 0 <= rate < 1:
            raise ConfigurationError(f"{key}={rate}: must be at least 0, and below 1")


def _is_variable(key: str, text: str) -> bool:
    """True if another value refers to the key; a name before a colon is a resolver's."""
    return re.search(rf"\$\{{[^}}]*\b{re.escape(key)}\b(?!:)", text) is not None


def _check_pretraining(pretraining: Any) -> None:
    """Check the settings of `pretraining`, whose default is null and so has no kind."""
    if pretraining is None:
        return
    if not isinstance(pretraining, DictConfig):
        raise ConfigurationError(
            f"pretraining={_as_yaml(pretraining)}: must have settings ({', '.join(PRETRAINING)}). "
            "Fix: pretraining={without:[memory]}"
        )
    for key, value in pretraining.items():
        if key not in PRETRAINING:
            fix = f"{did_you_mean(str(key), PRETRAINING)}. Fix: choose {', '.join(PRETRAINING)}"
            raise ConfigurationError(f"pretraining.{key}: no such key{fix}")
        is_words = isinstance(value, ListConfig) and all(isinstance(word, str) for word in value)
        if not (isinstance(value, str | None) if key == "experiment" else is_words):
            raise ConfigurationError(f"pretraining.{key}={value}: must be {PRETRAINING[key]}")


def find_misfit(key: str, value: Any, default: Any) -> str | None:
    """Explain a value of another kind than its default; null and references to other values fit everywhere."""
    if value is None or key in ANY_KIND or (isinstance(value, str) and "${" in value):
        return None
    if isinstance(value, str) and value in list_choices(key):
        return f"{key}={value}: {value} is a choice of a group. Fix: {key.replace('.', '/')}={value}"
    if isinstance(default, DictConfig) and not isinstance(value, dict | DictConfig):
        keys = ", ".join(str(name) for name in default if not str(name).startswith("_"))
        return f"{key}={value}: is a section with settings ({keys}). Fix: {key}.NAME=VALUE"
    if kind := _find_other_kind(key, value, default):
        return f"{key}={_as_yaml(value)}: must be {kind}; the default is {_as_yaml(default)}"
    return None


def _find_other_kind(key: str, value: Any, default: Any) -> str | None:
    """Return the default's kind in words if the value is of another kind."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if key == "fresh":
        return None if isinstance(value, list | ListConfig) else "a list, such as [decoder.memory.*]"
    if not isinstance(default, int | float):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    is_whole = isinstance(default, int) and not key.startswith(FRACTIONS)
    return "a whole number" if is_whole and isinstance(value, float) else None


def _as_yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
