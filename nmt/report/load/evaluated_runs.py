"""Load the runs to compare: those that are completed and were evaluated on one test set."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from nmt.config.installation import name_command
from nmt.errors import UserError, did_you_mean
from nmt.evaluation.stored_evaluation import StoredEvaluation, parse_checkpoint, read_evaluation
from nmt.report.load.run_folder import RunFolder, RunSettings, find_runs, read_settings
from nmt.report.load.run_names import is_job
from nmt.runs.folder import SCORES, list_evaluations, strip_settings
from nmt.system.safe_files import UnreadableError


class LeftOut(NamedTuple):
    """A run that is not compared."""

    run: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluatedRun(RunFolder):
    """A completed run on a test set; its notes also name results that do not fit the run."""

    settings: RunSettings
    evaluation: StoredEvaluation


class LoadedRuns(NamedTuple):
    """The runs evaluated on a test set, and all others."""

    test: str
    runs: list[EvaluatedRun]
    left_out: list[LeftOut]


def load_runs(folders: Sequence[str], test: str | None, evaluations: str) -> LoadedRuns:
    """Load the runs in these folders that were evaluated on a test set.

    Args:
        folders: Runs, or folders that hold them.
        test: The test set; None: the one of most runs.
        evaluations: `all` of a run on the test set, or `own`: only the one with the run's own settings.
    """
    all_runs = find_runs(folders)
    completed = [run for run in all_runs if not run.problem]
    left_out = [LeftOut(run.name, run.problem) for run in all_runs if run.problem]
    test = _choose_test(completed, test, left_out)
    evaluated = []
    for run, name in chain.from_iterable(_list_evaluations(run, test, evaluations) for run in completed):
        try:
            evaluated.append(load_run(run, name))
        except UnreadableError as error:
            left_out.append(LeftOut(run.name, str(error)))
    if not evaluated:
        raise UserError(f"nothing can be compared: {_list_reasons(left_out)}")
    return LoadedRuns(test, evaluated, left_out)


def _list_evaluations(run: RunFolder, test: str, evaluations: str) -> Iterator[tuple[RunFolder, str]]:
    """Yield the evaluations of a run on a test set; if there are several, the run's name has their settings."""
    names = (list_evaluations(run.folder, test) if evaluations == "all" else []) or [test]
    for evaluation in names:
        settings = evaluation.removeprefix(test).replace(",", " ") if len(names) > 1 else ""
        yield replace(run, name=f"{run.name}{settings}"), evaluation


def _choose_test(runs: Sequence[RunFolder], test: str | None, left_out: Sequence[LeftOut]) -> str:
    """Return the test set of most runs; if there are several, the one that the first run names in its settings.

    TEST,KEY=VALUE names a single evaluation, as its folder does.
    """
    counts = Counter(name for run in runs for name in dict.fromkeys(map(strip_settings, run.tests)))
    known = dict.fromkeys([*counts, *(name for run in runs for name in run.tests)])
    if test is not None and str(test) not in known:
        choice = f"choose one of {', '.join(counts)}{did_you_mean(str(test), known)}"
        command = f"{name_command('evaluate')} run=FOLDER data.test={strip_settings(str(test))}"
        raise UserError(f"test={test}: no run was evaluated on it. Fix: {choice if counts else command}")
    if test is not None:
        return str(test)
    if not counts:
        reasons = f" ({_list_reasons(left_out)})" if left_out else ""
        command = f"{name_command('evaluate')} run=FOLDER"
        raise UserError(f"no completed run was evaluated on a test set{reasons}. Fix: {command}")
    default = read_settings(runs[0]).test
    return max(counts, key=lambda name: (counts[name], name == default))


def _list_reasons(left_out: Sequence[LeftOut]) -> str:
    reasons = "; ".join(f"{one.run}: {one.reason}" for one in left_out[:3])
    return reasons + (f"; and {len(left_out) - 3} more" if len(left_out) > 3 else "")


def load_run(run: RunFolder, test: str) -> EvaluatedRun:
    """Load a run on a test set; raise UnreadableError if it was not evaluated there or the results are damaged."""
    evaluation, settings = load_evaluation(run, test), read_settings(run)
    best, used = parse_checkpoint([run.summary.get("best")]), evaluation.checkpoint
    stale = note_stale_scores(run, evaluation)
    if not stale and used and best and used != best:
        stale = f"evaluated with {used.name}, step {used.step}; its best is {best.name}"
    notes = [*([stale] if stale else []), *settings.notes]
    if evaluation.text_overrides and settings.has_test(strip_settings(test)):
        overrides = " ".join(evaluation.text_overrides)
        notes.append(f"evaluated with {overrides}: maybe another text or BLEU than its own {strip_settings(test)}")
    # a note on what identifies a run comes first: the command line of a job, the training of an evaluation
    comes_first = is_job(run.folder) or run.trained is None
    notes = (*run.notes, *notes) if comes_first else (*notes, *run.notes)
    return EvaluatedRun(**vars(run) | {"notes": notes}, settings=settings, evaluation=evaluation)


def load_evaluation(run: RunFolder, test: str) -> StoredEvaluation:
    """Load the results of a run on a test set; raise UnreadableError if there are none or they are damaged."""
    if not (run.folder / test / SCORES).is_file():
        others = f"; it was on {', '.join(run.tests)}" if run.tests else ""
        command = f"{name_command('evaluate')} run=FOLDER data.test={strip_settings(test)}"
        raise UnreadableError(f"not evaluated on {test}{others}: {command}")
    return read_evaluation(run.folder, test)


def note_stale_scores(run: RunFolder, evaluation: StoredEvaluation) -> str:
    """Return a note if the run was trained after its evaluation, because its curves and steps are of other weights."""
    best, used = parse_checkpoint([run.summary.get("best")]), evaluation.checkpoint
    if not (used and best and used.name == best.name and used.step != best.step):
        return ""
    how = "further" if best.step > used.step else "anew"
    return f"evaluated at step {used.step}, trained {how} since; evaluate it again"
