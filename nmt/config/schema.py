"""Whether KEY=VALUEs are of the kinds of the defaults, and files of one's own name keys that are read: asked before
anything else is done.

YAML 1.2, which Hydra reads, takes yes, no, on and off for words, and Python every word for true.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf

from nmt.errors import ConfigurationError, closest

CONFIGURATIONS = Path(__file__).parents[2] / "conf"
FREE = ("trainer.devices", "deterministic", "trainer.deterministic")  # Lightning takes words for them too
FRACTIONS = ("trainer.limit_", "trainer.overfit_batches")  # a whole number of batches, or a part of all
WHOLE = ("size", "loss", "finite")  # of these nothing is read but what the defaults have
STAGE = {  # what pretraining may hold
    "experiment": "the name of one",
    "without": "a list of groups",
    "overrides": "a list of KEY=VALUEs",
}


def choices(group: str) -> list[str]:
    """A recipe is named with its paper's folder, which is no group of its own."""
    folder = CONFIGURATIONS / group.replace(".", "/")
    files = folder.rglob("[!_]*.yaml") if group == "experiment" else folder.glob("[!_]*.yaml")
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in files)


def check_kinds(arguments: Sequence[str]) -> None:
    """Checks one job's overrides: raises at the first value of another type than its default's, and at new keys that
    nothing would read."""
    overrides = OverridesParser.create().parse_overrides(list(arguments))
    try:
        defaults = _defaults(tuple(one.input_line for one in overrides if _is_group(one)))
    except HydraException:  # choices that need other overrides to fit together: nothing is known of defaults
        return
    for override in overrides:
        if _is_group(override) or override.is_delete() or override.key_or_group.startswith("hydra"):
            continue
        key, value = override.key_or_group, override.value()
        default = OmegaConf.select(defaults, key, throw_on_resolution_failure=False)
        if wrong := _new(override, defaults) or misfit(key, value, default):
            raise ConfigurationError(wrong)


@cache
def _defaults(chosen: tuple[str, ...]) -> DictConfig:
    return compose("config", overrides=list(chosen))


def _is_group(override: Override) -> bool:
    """attention/score=dot, attention=dot; not attention.score=…"""
    return (CONFIGURATIONS / override.key_or_group).is_dir()


def _new(override: Override, defaults: DictConfig) -> str | None:
    """What is wrong with an added key that nothing reads: it is probably misspelt."""
    if not (override.is_add() or override.is_force_add()):
        return None
    first, _, rest = override.key_or_group.partition(".")
    within = first in WHOLE and rest
    known, key = (defaults.get(first, {}), rest) if within else (defaults, first)
    if key in known:
        return None
    return _unread(key, map(str, known), first if within else "")


def _unread(key: str, known: Iterable[str], place: str = "") -> str:
    known = list(known)
    where, others = (f"{place}.{key}", f"; {place} has {', '.join(known)}") if place else (key, "")
    return f"{where}: no such key, nothing would read it{closest(key, known)}{others}"


def check_composed(config: DictConfig) -> None:
    """What the files have joined into, those of one's own among them."""
    defaults = _defaults(())
    text = OmegaConf.to_yaml(config)
    for place in ("", *WHOLE):
        given, known = (config.get(place), defaults[place]) if place else (config, defaults)
        if not isinstance(given, DictConfig):
            raise ConfigurationError(misfit(place, given, known) or f"{place}=null: has to have settings")
        for key in map(str, given):
            if key not in known and key != "hydra" and not _is_variable(key, text):
                raise ConfigurationError(_unread(key, map(str, known), place))
    _check_pretraining(config.pretraining)


def _is_variable(key: str, text: str) -> bool:
    """Whether another value refers to it."""
    return re.search(rf"\$\{{[^}}]*\b{re.escape(key)}\b", text) is not None


def _check_pretraining(pretraining: Any) -> None:
    """Its default, null, says nothing of what it may be."""
    if pretraining is None:
        return
    if not isinstance(pretraining, DictConfig):
        said = str(pretraining).lower() if isinstance(pretraining, bool) else pretraining
        raise ConfigurationError(
            f"pretraining={said}: must have settings of its own ({', '.join(STAGE)}), such as {{without: [memory]}}"
        )
    for key, value in pretraining.items():
        if key not in STAGE:
            raise ConfigurationError(
                f"pretraining.{key}: no such key{closest(str(key), STAGE)}; there are {', '.join(STAGE)}"
            )
        fits = isinstance(value, str | None) if key == "experiment" else _is_list_of_words(value)
        if not fits:
            raise ConfigurationError(f"pretraining.{key}={value}: {STAGE[key]} is expected")


def _is_list_of_words(value: Any) -> bool:
    return isinstance(value, ListConfig) and all(isinstance(word, str) for word in value)


def misfit(key: str, value: Any, default: Any) -> str | None:
    """What is wrong, in words; null is of every kind, and what refers to another value is not looked at."""
    if value is None or key in FREE or (isinstance(value, str) and "${" in value):
        return None
    if isinstance(value, str) and value in choices(key):
        return f"{key}={value}: {value} is a choice of a group; write {key.replace('.', '/')}={value}"
    if isinstance(default, DictConfig) and not isinstance(value, dict | DictConfig):
        keys = ", ".join(str(name) for name in default if not str(name).startswith("_"))
        return f"{key}={value}: has settings of its own ({keys}); give one as {key}.NAME=VALUE"
    if wanted := _wanted(key, value, default):
        said = str(value).lower() if isinstance(value, bool) else value
        return f"{key}={said}: {wanted} is expected (the default is {str(default).lower()})"
    return None


def _wanted(key: str, value: Any, default: Any) -> str | None:
    """Words for the default's kind, if the value is of another."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if not isinstance(default, int | float):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    whole = isinstance(default, int) and not key.startswith(FRACTIONS)
    return "a whole number" if whole and isinstance(value, float) else None


def defaults_of(name: str) -> DictConfig:
    """The settings of a verb: those that its `defaults` name, and its own."""
    own = OmegaConf.load(CONFIGURATIONS / f"{name}.yaml")
    return OmegaConf.merge(*map(defaults_of, own.pop("defaults", [])), own)
