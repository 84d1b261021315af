"""Find the settings in which runs differ, and the runs that differ in the seed alone.

Composed configurations are compared leaf by leaf. Where the choice of a config group differs (attention=coverage,
attention=dot), one column for the choice replaces the leaves that come with it. A leaf that was set on the command
line, or that differs within a choice, keeps its column.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from nmt.config.diff import SEARCH, SEEDS, flatten_settings, is_within, override_key
from nmt.evaluation.stored_evaluation import DEFAULTS
from nmt.report.load.run_names import NOT_OF_THE_SYSTEM, remove_seed

Settings = Mapping[str, Any]


def collect_settings(config: Mapping[str, Any], search: Settings) -> Settings:
    """Return what decides what a run does, but the seeds: its configuration and its search; null is left out."""
    trained = {key: value for key, value in flatten_settings(config).items() if key and not is_within(key, (SEARCH,))}
    settings = DEFAULTS | trained | dict(search)
    nulls = [None, *(f"${{{key}}}" for key, value in settings.items() if value is None)]  # and references to null
    return {
        key: _as_argument(value)
        for key, value in settings.items()
        if value not in nulls and not is_within(key, (*SEEDS, *NOT_OF_THE_SYSTEM))
    }


def _as_argument(value: Any) -> Any:
    """Return a value as it is written on a command line."""
    is_plain = isinstance(value, str | int | float)
    return value if is_plain else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def group_seeds(settings: Sequence[Settings]) -> list[list[int]]:
    """Return the places of runs that differ in the seed alone, in the order of the runs.

    A run whose configuration is not known is a group for itself.
    """
    groups: dict[str, list[int]] = {}
    for place, of_run in enumerate(settings):
        values = {name: _as_integer(value) for name, value in of_run.items()}
        key = json.dumps(values, sort_keys=True, default=str) if _is_known(of_run) else f"run {place}"
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _as_integer(value: Any) -> Any:
    """Return 10 for 10.0, because files have either."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_known(settings: Settings) -> bool:
    """Return True if a run's configuration is known; how it was evaluated is known of every run."""
    return any(key not in DEFAULTS for key in settings)


def find_differences(
    settings: Sequence[Settings], choices: Sequence[Mapping[str, str]], overrides: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the columns in which any runs differ, with the values of each run.

    A run whose configuration is not known, such as an ensemble, has values only in columns of the evaluation.
    """
    known = [place for place, of_run in enumerate(settings) if _is_known(of_run)]
    training = [{key: value for key, value in settings[place].items() if key not in DEFAULTS} for place in known]
    columns = _find_columns(training, [choices[place] for place in known], [overrides[place] for place in known])
    by_place = dict(zip(known, columns, strict=True))
    unknown = dict.fromkeys(columns[0]) if columns else {}
    evaluation = [{key: value for key, value in of_run.items() if key in DEFAULTS} for of_run in settings]
    evaluated = _find_columns(evaluation, [{}] * len(settings), [])
    return [by_place.get(place, unknown) | of_run for place, of_run in enumerate(evaluated)]


def _find_columns(
    settings: Sequence[Settings], choices: Sequence[Mapping[str, str]], overrides: Iterable[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the columns in which runs differ, with the values of each run."""
    keys = dict.fromkeys(key for of_run in settings for key in of_run)
    values = {key: [_identify(of_run.get(key)) for of_run in settings] for key in keys}
    differing = [key for key in keys if len(set(values[key])) > 1]
    on_command_line = {override_key(override) for of_run in overrides for override in of_run}
    columns: dict[str, list[Any]] = {}
    explained: set[str] = set()
    groups = {group for of_run in choices for group in of_run}
    for group in sorted(groups, key=lambda name: (name.count("/"), name)):
        node, chosen = group.replace("/", "."), [of_run.get(group) for of_run in choices]
        leaves_below = [key for key in differing if is_within(key, (node,)) and key not in explained]
        if leaves_below and len(set(chosen)) > 1 and None not in chosen:
            columns[node] = chosen
            # a choice explains a leaf that always has the same value with it, unless the leaf was set by hand
            pairs = {key: set(zip(chosen, values[key], strict=True)) for key in leaves_below}
            explained |= {key for key in leaves_below if len(pairs[key]) == len(set(chosen))} - on_command_line
    for key in differing:
        if key not in explained and key not in columns:
            columns[key] = [of_run.get(key) for of_run in settings]
    return [{name: values[place] for name, values in columns.items()} for place in range(len(settings))]


def _identify(value: Any) -> tuple[Any, bool]:
    """Return what tells values apart: 0.0 is 0, but False is not."""
    return value, isinstance(value, bool)


def name_systems(runs: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each system, from the names of its runs; the second of a name is NAME (2)."""
    names = list(map(_find_common_name, runs))
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name} ({count})" for name, count in zip(names, counts, strict=True)]


def _find_common_name(names: Sequence[str]) -> str:
    """Return what the names of runs that differ in the seed have in common."""
    if len(names) == 1:
        return names[0]
    without_seed = {remove_seed(name) for name in names}
    if len(without_seed) == 1 and (name := without_seed.pop()):
        return name
    same_letters = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    common = re.sub(r"[\W_]*(seed|run|s)?[\W_]*$", "", "".join(letters[0] for letters in same_letters))
    return common if len(common) > 1 else f"{names[0]} …"
