"""In what runs differ: their composed configurations, leaf by leaf, and which runs differ in the seed alone.

Where a group's choice differs (attention=coverage, attention=dot), one column says so in place of all the leaves that
come with it; a leaf that was set on the command line, or differs within a choice, keeps a column of its own.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Any

from nmt.config.diff import OF_NO_WEIGHT, SEEDS, TEST, is_within, leaves, name_of
from nmt.report.load.run_folder import RunFolder
from nmt.runs.folder import BEST
from nmt.search.settings import BESIDE, Search

NOT_OF_THE_SYSTEM = (  # nor do these make another system
    *OF_NO_WEIGHT, TEST, "data.dir", "data.tests", "callbacks.checkpoint.dirpath",
    "trainer.default_root_dir", "search.seed",
)  # fmt: skip
HOW = {f"search.{key}": value for key, value in asdict(Search()).items()} | BESIDE | {"checkpoint": BEST}


def settings_of(run: RunFolder, how: Mapping[str, Any]) -> dict[str, Any]:
    """All that decides what a run does, but for its seed; `how` it was searched belongs to it. Null is not said."""
    found = HOW | (leaves(run.config) if run.config else {}) | dict(how)
    said = {key: _plain(value) for key, value in found.items() if value is not None}
    return {key: value for key, value in said.items() if not is_within(key, (*SEEDS, *NOT_OF_THE_SYSTEM))}


def _plain(value: Any) -> Any:
    """As it is written on a command line."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def folded(settings: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Places of runs that are the same but for the seed, in the order in which they come.

    Of a run whose settings are not known nothing can be said: it stands alone.
    """
    groups: dict[str, list[int]] = {}
    for place, found in enumerate(settings):
        whole = {name: _as_whole(value) for name, value in found.items()}
        key = json.dumps(whole, sort_keys=True, default=str) if _is_known(found) else f"alone {place}"
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _as_whole(value: Any) -> Any:
    """10.0 is 10, whichever of them a file says."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_known(settings: Mapping[str, Any]) -> bool:
    return not all(map(_says_how, settings))


def _says_how(key: str) -> bool:
    """A run was evaluated, which is known of each."""
    return key in HOW


def differing(
    settings: Sequence[Mapping[str, Any]], choices: Sequence[Mapping[str, str]], overrides: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """For each of `settings` the columns in which any differ, and what stands there: nothing, for a run whose settings
    are not known, as an ensemble's, but how it was evaluated."""
    known = [place for place, found in enumerate(settings) if _is_known(found)]
    trained = [{key: value for key, value in settings[place].items() if not _says_how(key)} for place in known]
    columns = _differing(trained, [choices[place] for place in known], [overrides[place] for place in known])
    found = dict(zip(known, columns, strict=True))
    nothing = dict.fromkeys(columns[0]) if columns else {}
    how = [{key: value for key, value in one.items() if _says_how(key)} for one in settings]
    evaluated = _differing(how, [{}] * len(how), [])
    return [found.get(place, nothing) | own for place, own in enumerate(evaluated)]


def _differing(
    settings: Sequence[Mapping[str, Any]], choices: Sequence[Mapping[str, str]], overrides: Iterable[Sequence[str]]
) -> list[dict[str, Any]]:
    keys = dict.fromkeys(key for found in settings for key in found)
    leaves_that_differ = [key for key in keys if _differs([found.get(key) for found in settings])]
    on_command_line = {name_of(override) for of_run in overrides for override in of_run}
    columns: dict[str, list[Any]] = {}
    explained: set[str] = set()
    for group in sorted({group for chosen in choices for group in chosen}, key=lambda name: (name.count("/"), name)):
        node, chosen = group.replace("/", "."), [one.get(group) for one in choices]
        under = [key for key in leaves_that_differ if key == node or key.startswith(f"{node}.")]
        free = [key for key in under if key not in explained]
        if free and _differs(chosen) and None not in chosen:
            columns[node] = chosen
            explained |= {key for key in free if key not in on_command_line and _decided(key, chosen, settings)}
    for key in leaves_that_differ:
        if key not in explained and key not in columns:
            columns[key] = [found.get(key) for found in settings]
    return [{name: values[place] for name, values in columns.items()} for place in range(len(settings))]


def _decided(key: str, chosen: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> bool:
    """The same choice always comes with the same value."""
    seen: dict[str, Any] = {}
    return all(
        _same(seen.setdefault(choice, found.get(key)), found.get(key))
        for choice, found in zip(chosen, settings, strict=True)
    )


def _differs(values: Sequence[Any]) -> bool:
    return any(not _same(value, values[0]) for value in values)


def _same(one: Any, other: Any) -> bool:
    """0.0 is 0, but False is not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def name_runs(runs: Sequence[RunFolder]) -> None:
    """Jobs of a sweep by the overrides that tell them apart, or all where that is none but the seed; others by their
    folders."""
    parts = [_parts(run) for run in runs]
    named = [set(of_run) for of_run in parts if of_run]
    shared = set.intersection(*named) if len(named) > 1 else set()
    own = [" ".join(part for part in of_run if part not in shared) for of_run in parts]
    names = [
        name if without_seed(name) else " ".join(of_run) or run.name
        for name, run, of_run in zip(own, runs, parts, strict=True)
    ]
    for run, name in zip(runs, names, strict=True):
        run.name = name if names.count(name) == 1 else run.name


def _parts(run: RunFolder) -> list[str]:
    """Without what a job is called: +sweep=first."""
    return of_the_model(run.overrides) if "=" in run.folder.name else []


def of_the_model(overrides: Sequence[str]) -> list[str]:
    """Of a command line what decides what is trained."""
    return [override for override in overrides if not is_within(name_of(override), NOT_OF_THE_SYSTEM)]


def name_of_system(names: Sequence[str]) -> str:
    """What the names of runs have in common that differ in the seed."""
    if len(names) == 1:
        return names[0]
    without = {without_seed(name) for name in names}
    if len(without) == 1 and (name := without.pop()):
        return name
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    common = re.sub(r"[\W_]*(seed|run|s)?[\W_]*$", "", "".join(letters[0] for letters in same))
    return common if len(common) > 1 else f"{names[0]} …"


def without_seed(name: str) -> str:
    return re.sub(r"(^|[\s,/_-])seed[=_-]?\d+", "", name).strip(" ,/_-")


def unique(names: Sequence[str]) -> list[str]:
    """The second of a name is NAME (2)."""
    return [
        name if names[:place].count(name) == 0 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]
