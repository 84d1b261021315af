"""Runs of one test set that can be set side by side, seeds of one system together.

Runs are compared whose sources, references and way to count BLEU are the same; all others are listed with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import UserError, closest
from nmt.report.compare.setting_differences import (
    differing,
    folded,
    name_of_system,
    name_runs,
    settings_of,
    unique,
    without_seed,
)
from nmt.report.load.evaluation import Evaluated
from nmt.report.load.run_folder import LeftOut, RunFolder, find_runs
from nmt.report.load.safe_files import UnreadableError

NAMED = 8  # runs, where a message lists those there are


class Compared(NamedTuple):
    """A run that can be compared, on the test set."""

    run: RunFolder
    on: Evaluated

    @property
    def name(self) -> str:
        return self.run.name


class System(NamedTuple):
    """Runs that differ in nothing but the seed, the first seed first."""

    name: str
    members: list[Compared]
    settings: dict[str, Any]  # those in which systems differ

    @property
    def once_a_seed(self) -> list[Compared]:
        """Without runs of a seed again, which would tell nothing of training anew: all that is counted is of these."""
        again = {one.name for one, _ in not_independent(self)}
        return [one for one in self.members if one.name not in again]

    @property
    def statistics(self) -> np.ndarray:
        """(run, sentence, 10): what BLEU is made of."""
        return np.array([one.on.statistics for one in self.once_a_seed])

    @property
    def bleu(self) -> float:
        return mean(one.on.scores["bleu"] for one in self.once_a_seed)

    def by_training(self, scores: Sequence[float]) -> dict[Path, float]:
        """Those, a run of `once_a_seed` each, that tell what training anew does: not an ensemble's."""
        told = zip(self.once_a_seed, scores, strict=True)
        return {one.run.trained.resolve(): score for one, score in told if one.run.trained}

    @property
    def bleu_by_training(self) -> dict[Path, float]:
        return self.by_training([one.on.scores["bleu"] for one in self.once_a_seed])


class Field(NamedTuple):
    """All that was found."""

    test: str
    systems: list[System]  # the best BLEU first
    baseline: System
    left_out: list[LeftOut]

    @property
    def runs(self) -> list[Compared]:
        return [member for system in self.systems for member in system.members]


def compared(folders: Sequence[str], test: str | None, baseline: str | None) -> Field:
    everything, left_out = find_runs(folders), []
    name_runs(everything)
    runs = _completed(everything, left_out)
    test = _test(runs, test, left_out)
    evaluated = _evaluated(runs, test, left_out)
    if not evaluated:
        raise UserError(f"nothing can be compared: {_reasons(left_out)}")
    chosen = None if baseline is None else _named(str(baseline), evaluated, left_out)
    alike = _comparable(evaluated, chosen, left_out)
    systems = _systems(alike)
    first = chosen or alike[0]
    own = next(system for system in systems if first in system.members)
    return Field(test, sorted(systems, key=lambda system: -system.bleu), own, left_out)


def _completed(runs: Sequence[RunFolder], left_out: list[LeftOut]) -> list[RunFolder]:
    completed = []
    for run in runs:
        try:
            run.must_be_completed()
            completed.append(run)
        except UnreadableError as error:
            left_out.append(LeftOut(run.name, str(error)))
    return completed


def _test(runs: Sequence[RunFolder], wanted: str | None, left_out: Sequence[LeftOut]) -> str:
    """The one that most were evaluated on; of several the one that the first run names its own."""
    counts = Counter(test for run in runs for test in run.tests)
    if wanted is not None:
        if str(wanted) not in counts:
            there = f"there is {', '.join(counts) or 'none'}{closest(str(wanted), counts)}"
            raise UserError(f"test={wanted}: no run was evaluated on it; {there}")
        return str(wanted)
    if not counts:
        others = f" ({_reasons(left_out)})" if left_out else ""
        raise UserError(f"no completed run was evaluated on a test set: python evaluate.py run=FOLDER{others}")
    return max(counts, key=lambda test: (counts[test], test == runs[0].own_test))


def _evaluated(runs: Sequence[RunFolder], test: str, left_out: list[LeftOut]) -> list[Compared]:
    evaluated = []
    for run in runs:
        try:
            evaluated.append(Compared(run, run.on(test)))
        except UnreadableError as error:
            left_out.append(LeftOut(run.name, str(error)))
    return evaluated


def _reasons(left_out: Sequence[LeftOut]) -> str:
    said = "; ".join(f"{one.run}: {one.reason}" for one in left_out[:3])
    return said + (f"; and {len(left_out) - 3} more" if len(left_out) > 3 else "")


def _named(baseline: str, evaluated: Sequence[Compared], left_out: Sequence[LeftOut]) -> Compared:
    """By its name, its folder, or the name of its system."""
    path = Path(baseline).resolve()
    for one in evaluated:
        if baseline in (one.name, one.run.folder.name) or path == one.run.folder.resolve():
            return one
    systems = _systems_by_name(evaluated)
    if baseline in systems:
        return systems[baseline]
    for one in evaluated:
        if baseline == without_seed(one.name):
            return one
    for name, reason in left_out:
        if baseline == name or path.name == Path(name).name:
            raise UserError(f"baseline={baseline}: is not compared ({reason})")
    names = [one.name for one in evaluated]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    there = f"there are {', '.join(names[:NAMED])}{more}{closest(baseline, [*systems, *names])}"
    raise UserError(f"baseline={baseline}: no such run; {there}")


def _systems_by_name(evaluated: Sequence[Compared]) -> dict[str, Compared]:
    """The first run of each, named as where its kind is compared; of two kinds' systems of one name the commoner's."""
    kinds = Counter(map(_kind, evaluated)).most_common()
    together = [_systems([one for one in evaluated if _kind(one) == kind]) for kind, _ in reversed(kinds)]
    return {system.name: system.members[0] for systems in together for system in systems}


def _kind(one: Compared) -> tuple[str, str | None]:
    """What must be the same to be compared: the test set, and how BLEU is counted."""
    return one.on.digest, one.on.signatures.get("bleu")


def _comparable(evaluated: Sequence[Compared], baseline: Compared | None, left_out: list[LeftOut]) -> list[Compared]:
    """Those with the baseline's test set and BLEU; without one, with those of most."""
    kinds = list(map(_kind, evaluated))
    kept = _kind(baseline) if baseline else Counter(kinds).most_common(1)[0][0]
    for one, (digest, signature) in zip(evaluated, kinds, strict=True):
        if digest != kept[0]:
            left_out.append(
                LeftOut(one.run.name, f"its sources or references are others ({digest}; those compared are {kept[0]})")
            )
        elif signature != kept[1]:
            left_out.append(LeftOut(one.run.name, f"its BLEU was counted otherwise ({signature}, not {kept[1]})"))
    return [one for one, kind in zip(evaluated, kinds, strict=True) if kind == kept]


def _systems(runs: Sequence[Compared]) -> list[System]:
    settings = [settings_of(one.run, one.on.search) for one in runs]
    columns = differing(settings, [one.run.choices for one in runs], [one.run.overrides for one in runs])
    groups = [sorted(places, key=lambda place: str(runs[place].run.seed).zfill(20)) for places in folded(settings)]
    names = unique([name_of_system([runs[place].name for place in places]) for places in groups])
    return [
        System(name, [runs[place] for place in places], columns[places[0]])
        for name, places in zip(names, groups, strict=True)
    ]


def not_independent(system: System) -> Iterator[tuple[Compared, str]]:
    """Runs with the seed of one before: n and ± would be of fewer runs than they seem."""
    first: dict[Any, Compared] = {}
    for one in system.members:
        other = first.setdefault(one.run.seeds, one)
        if other is not one and one.run.seed is not None:
            reason = f"has the seed of {other.name}, {one.run.seed}, and all else alike: shown, but in no mean, ± or p"
            yield one, reason
