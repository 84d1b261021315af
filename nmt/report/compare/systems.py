"""Find the systems to compare: runs of one test set, those that differ in the seed alone together.

Runs are compared if their sources, their references and the signature of their BLEU are the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import UserError, did_you_mean, list_first
from nmt.report.compare.setting_differences import collect_settings, find_differences, group_seeds, name_systems
from nmt.report.load.evaluated_runs import EvaluatedRun, LeftOut, LoadedRuns
from nmt.report.load.run_names import remove_seed


class System(NamedTuple):
    """Runs that differ in the seed alone, by seed."""

    name: str
    members: list[EvaluatedRun]
    settings: dict[str, Any]  # those in which the systems differ

    def find_repeated_seeds(self) -> Iterator[tuple[EvaluatedRun, EvaluatedRun]]:
        """Yield each run that has the seeds of another run before it, and that run."""
        first: dict[Any, EvaluatedRun] = {}
        for member in self.members:
            other = first.setdefault(member.settings.seeds, member)
            if other is not member and member.settings.seed is not None:
                yield member, other

    @property
    def independent(self) -> list[EvaluatedRun]:
        """One run of each seed: scores count only these, because the same training again adds no information."""
        repeated = {member.name for member, _ in self.find_repeated_seeds()}
        return [member for member in self.members if member.name not in repeated]

    def stack_counts(self, name: str) -> np.ndarray:
        """Return (run, sentence, counts): an attribute of the evaluation of each independent run."""
        return np.array([getattr(member.evaluation, name) for member in self.independent])

    @property
    def bleu(self) -> list[float]:
        """The BLEU of each independent run."""
        return [member.evaluation.scores["bleu"] for member in self.independent]

    def by_training(self, scores: Sequence[float]) -> dict[Path, float]:
        """Return the scores of the independent runs by the folder of their training; ensembles have none."""
        pairs = zip(self.independent, scores, strict=True)
        return {member.trained.resolve(): score for member, score in pairs if member.trained}


class ComparedSystems(NamedTuple):
    """All that is compared, and the runs that are not."""

    test: str
    systems: list[System]  # the best BLEU first
    baseline: System
    left_out: list[LeftOut]

    @property
    def runs(self) -> list[EvaluatedRun]:
        """The runs of all systems."""
        return [member for system in self.systems for member in system.members]


def find_systems(loaded: LoadedRuns, baseline: str | None) -> ComparedSystems:
    """Group the runs that can be compared into systems; the baseline is a run or a system."""
    chosen = None if baseline is None else _find_baseline(str(baseline), loaded)
    comparable, others = _split_by_kind(loaded.runs, chosen)
    systems = _group(comparable)
    first = chosen or comparable[0]
    baseline_system = next(system for system in systems if first in system.members)
    by_bleu = sorted(systems, key=lambda system: -mean(system.bleu))
    return ComparedSystems(loaded.test, by_bleu, baseline_system, [*loaded.left_out, *others])


def _find_baseline(baseline: str, loaded: LoadedRuns) -> EvaluatedRun:
    """Return the run that is named, or the first run of the system that is named."""
    path = Path(baseline).resolve()
    for run in loaded.runs:
        if baseline in (run.name, run.folder.name) or path == run.folder.resolve():
            return run
    systems = _find_named_systems(loaded.runs)
    if baseline in systems:
        return systems[baseline].members[0]
    for run in loaded.runs:
        if baseline == remove_seed(run.name):
            return run
    for name, reason in loaded.left_out:
        if baseline == name or path.name == Path(name).name:
            raise UserError(f"baseline={baseline}: is not compared ({reason})")
    return _find_shown_system(baseline, systems, [run.name for run in loaded.runs]).members[0]


def _find_shown_system(baseline: str, systems: Mapping[str, System], runs: Sequence[str]) -> System:
    """Return the system with this name in a table, which may be that of a paper's row, in any case."""
    shown = {name: [name, *system.members[0].settings.rows] for name, system in systems.items()}
    named = [name for name, names in shown.items() if baseline.casefold() in map(str.casefold, names)]
    if len(named) == 1:
        return systems[named[0]]
    if named:
        raise UserError(f"baseline={baseline}: names several systems. Fix: choose one of {', '.join(named)}")
    names = list(dict.fromkeys(chain.from_iterable(shown.values())))
    choices = list_first(names, 8) + did_you_mean(baseline, [*names, *runs])
    raise UserError(f"baseline={baseline}: no such run or system. Fix: choose one of {choices}")


def _find_named_systems(runs: Sequence[EvaluatedRun]) -> dict[str, System]:
    """Return the systems by their names in the tables of their kind.

    Systems of two kinds may have the same name, which then means the system of the more common kind.
    """
    kinds = Counter(map(_kind, runs)).most_common()
    groups = [_group([run for run in runs if _kind(run) == kind]) for kind, _ in reversed(kinds)]
    return {system.name: system for systems in groups for system in systems}


def _kind(run: EvaluatedRun) -> tuple[str, str | None]:
    """Return what must be the same to compare runs: the text of the test set, and how BLEU is counted."""
    return run.evaluation.digest, run.evaluation.signatures.get("bleu")


def _split_by_kind(
    runs: Sequence[EvaluatedRun], baseline: EvaluatedRun | None
) -> tuple[list[EvaluatedRun], list[LeftOut]]:
    """Return the runs of the baseline's kind, or of the most common kind, and the others with a reason."""
    usual = [run for run in runs if not run.evaluation.text_overrides] or runs
    kept = _kind(baseline) if baseline else Counter(map(_kind, usual)).most_common(1)[0][0]
    comparable, others = [], []
    for run in runs:
        digest, signature = _kind(run)
        if digest != kept[0]:
            reason = f"its sources or references are others ({digest}; those compared are {kept[0]})"
            others.append(LeftOut(run.name, reason))
        elif signature != kept[1]:
            others.append(LeftOut(run.name, f"its BLEU was counted otherwise ({signature}, not {kept[1]})"))
        else:
            comparable.append(run)
    return comparable, others


def _group(runs: Sequence[EvaluatedRun]) -> list[System]:
    """Group runs that differ in the seed alone, and name the groups."""
    settings = [collect_settings(run.settings.config, run.evaluation.search) for run in runs]
    texts = [run.summary.get("data") if run.settings.config else None for run in runs]
    for places in group_seeds(settings):
        of_system = [texts[place] for place in places]
        if len(set(map(str, of_system))) > 1 and all(of_system):  # because files of one name may hold other texts
            for place in places:
                settings[place] = {**settings[place], "data.texts": str(texts[place])}
    columns = find_differences(settings, [run.settings.choices for run in runs], [run.overrides for run in runs])
    groups = group_seeds(settings)
    members = [[runs[place] for place in places] for places in groups]
    for of_system in members:
        of_system.sort(key=lambda run: str(run.settings.seed).zfill(20))
    names = name_systems([[run.name for run in of_system] for of_system in members])
    return [System(name, runs, columns[places[0]]) for name, runs, places in zip(names, members, groups, strict=True)]
