"""Compute the tables of a comparison: scores, differences to the baseline and how certain they are."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from nmt.config.diff import SEARCH, is_within
from nmt.data.vocabulary import END, SPECIAL
from nmt.evaluation import alignment_error, over_under_translation
from nmt.evaluation.by_length import BOUNDS, compare_buckets, compare_longer, select_by_length, select_longer
from nmt.evaluation.significance import compare_rates, compare_systems, p_over_seeds, spread_over_seeds
from nmt.evaluation.stored_evaluation import DEFAULTS, Sentence
from nmt.report.compare.mean_std import mean_and_deviation
from nmt.report.compare.systems import ComparedSystems, System
from nmt.report.load.evaluated_runs import EvaluatedRun
from nmt.report.load.learning_curves import SPEED, Curves
from nmt.runs.code_fingerprint import is_same_code
from nmt.system.safe_files import is_number, make_json_safe

LOWER_IS_BETTER = ("ter", "tb", "words_", "source_unattended", "loss", "perplexity", "aer", "saer", "repeated_")
BETTER = {"length_ratio": "nearest 1", "attention_entropy": "neither"}  # of others: lower, or higher
TESTED = ("words_too_often", "words_left_out", "repeated_1grams", "repeated_2grams", "aer", "saer")  # rates with p
TESTS = (  # of a difference in BLEU, as in compare.json
    "difference", "difference_low", "difference_high", "p_bootstrap", "p_randomization", "p_sign", "better", "worse"
)  # fmt: skip
SURE = 1  # the column of the number of sure links, in the counts of the alignment error
SHORT_BOUNDS = (5, 10, 15, 20, 25, 30)  # of buckets by length, if few sources are longer
LONG = 30


def compute_tables(
    compared: ComparedSystems, curves: Mapping[Path, Curves], notes: list[dict[str, str]], drawing: dict[str, int]
) -> dict[str, Any]:
    """Return the content of compare.json, with the curves of each run's folder and the notes of loading.

    Intervals and p are of `resamples` of the test set, in which `together` consecutive sentences are drawn as one.
    """
    first = compared.baseline.members[0].evaluation
    differences = _compute_differences(compared, drawing)
    over_seeds = spread_over_seeds(system.by_training(system.bleu) for system in compared.systems)
    metrics = {run.best.get("metric") for run in compared.runs} - {None}  # that chose the best checkpoints
    gold = {_find_gold(run) for run in compared.runs}
    has_same_gold = len(gold) == 1 and None not in gold
    tables = {
        "test": compared.test,
        "sentences": len(first.sentences),
        "signature": first.signatures.get("bleu", ""),
        "baseline": compared.baseline.name,
        **drawing,
        "scores": _describe_scores(compared.runs),
        "validation": metrics.pop() if len(metrics) == 1 else None,
        "spread_over_seeds": over_seeds._asdict() if over_seeds else None,
        "settings": list(compared.systems[0].settings),
        "systems": [_make_row(system, differences.get(system.name), curves) for system in compared.systems],
        **_compute_by_length(compared, drawing["resamples"]),
        "adequacy": _compute_rates(compared, "adequacy", over_under_translation, drawing),
        "alignment": _compute_rates(compared, "alignment_counts", alignment_error, drawing) if has_same_gold else {},
        "not_compared": [one._asdict() for one in compared.left_out],
        "notes": [*notes, *({"run": run.name, "note": note} for run, note in _note_unlike_runs(compared))],
    }
    return make_json_safe(tables)


def _note_unlike_runs(compared: ComparedSystems) -> Iterator[tuple[EvaluatedRun, str]]:
    """Yield the runs that differ from the others in more than their settings, with a note."""
    for system in compared.systems:
        for run, other in system.find_repeated_seeds():
            reason = f"has the seed of {other.name}, {run.settings.seed}, and all else alike"
            yield run, f"{reason}: shown, but in no mean, ± or p"
    for system in compared.systems:
        if differing := _find_other_evaluation(system, compared.baseline):
            is_search = all(is_within(key, (SEARCH,)) for key in differing)
            how = f"{'searched' if is_search else 'evaluated'} differently from {compared.baseline.name}"
            yield system.members[0], f"{how}: {', '.join(differing.values())}"
    first = compared.baseline.members[0]
    code = first.summary.get("code")
    for run in compared.runs:
        if None not in (code, run.summary.get("code")) and not is_same_code(run.summary["code"], code):
            yield run, f"trained by other code than {first.name}"
        if checkpoint := run.summary.get("went_on_with"):
            yield run, f"went on with {checkpoint}: was not trained by its settings and data alone"
        if None not in (_find_gold(run), _find_gold(first)) and _find_gold(run) != _find_gold(first):
            yield run, f"its alignments were compared with others made by hand than those of {first.name}"
        model, other = (one.evaluation.signatures.get("comet") for one in (run, first))
        if None not in (model, other) and model != other:
            yield run, f"its COMET is by {model}, that of {first.name} by {other}"


def _find_other_evaluation(system: System, baseline: System) -> dict[str, str]:
    """Return the settings of a system's evaluation that are not those of the baseline, by key."""
    return {
        key: f"{key} {baseline.settings[key]} → {value}"
        for key, value in system.settings.items()
        if key in DEFAULTS and value != baseline.settings[key]
    }


def _find_gold(run: EvaluatedRun) -> bytes | None:
    """Return the sure links of each sentence, which identify alignments made by hand; None if there are none."""
    counts = run.evaluation.alignment_counts
    return None if counts is None else counts[:, SURE].tobytes()


def _describe_scores(runs: Sequence[EvaluatedRun]) -> list[dict[str, str]]:
    names = dict.fromkeys(name for run in runs for name in _collect_scores(run))
    signatures = {name: signature for run in runs for name, signature in run.evaluation.signatures.items()}
    better = {name: BETTER.get(name, "lower" if name.startswith(LOWER_IS_BETTER) else "higher") for name in names}
    return [{"name": name, "better": better[name], "signature": signatures.get(name, "")} for name in names]


def _collect_scores(run: EvaluatedRun) -> dict[str, float]:
    """Return the scores of a run; words are counted as in the tables with p, not as the model splits them."""
    rates = over_under_translation.compute_measures(run.evaluation.adequacy.sum(0)).tolist()
    return run.evaluation.scores | dict(zip(over_under_translation.MEASURES, rates, strict=True))


def _make_row(system: System, difference: dict[str, Any] | None, curves: Mapping[Path, Curves]) -> dict[str, Any]:
    members = system.independent
    scores = list(map(_collect_scores, members))
    summaries = [member.summary for member in members]
    parameters = summaries[0].get("parameters")
    total = parameters.get("total") if isinstance(parameters, Mapping) else None
    return {
        "system": system.name,
        "runs": [member.name for member in members],
        "seeds": [member.settings.seed for member in members],
        "scores": {
            name: mean_and_deviation([of_run.get(name) for of_run in scores])
            for name in dict.fromkeys(name for of_run in scores for name in of_run)
        },
        "difference": difference,
        "validation": mean_and_deviation([member.best.get("score") for member in members]),
        "parameters": total if is_number(total) else None,
        "tokens_per_second": mean_and_deviation([_find_speed(member, curves) for member in members]),
        "seconds": mean_and_deviation([member.seconds for member in members]),
        "steps": mean_and_deviation([summary.get("steps") for summary in summaries]),
        "settings": system.settings,
    }


def _find_speed(member: EvaluatedRun, curves: Mapping[Path, Curves]) -> float | None:
    last = member.summary.get("last")
    return curves[member.folder].speed or (last.get(SPEED) if isinstance(last, Mapping) else None)


def _compute_differences(compared: ComparedSystems, drawing: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return each system's difference to the baseline in BLEU, tested over sentences and over seeds."""
    baseline = compared.baseline
    others = [system for system in compared.systems if system is not baseline]
    if not others:
        return {}
    statistics = {system.name: system.stack_counts("statistics") for system in others}
    _, *by_sentence = compare_systems(baseline.stack_counts("statistics"), statistics, **drawing)
    bleu = {system.name: system.by_training(system.bleu) for system in others}
    by_seed = p_over_seeds(baseline.by_training(baseline.bleu), bleu)
    return {
        system.name: {
            "bleu": mean(system.bleu) - mean(baseline.bleu),
            "by_sentence": {name: getattr(comparison, name) for name in TESTS},
            "p_seeds": by_seed[system.name],
        }
        for system, comparison in zip(others, by_sentence, strict=True)
    }


def _compute_rates(compared: ComparedSystems, counted: str, module: Any, drawing: Mapping[str, int]) -> dict[str, Any]:
    """Return the measures that a module computes of these counts, and their differences to the baseline."""
    counts = {system.name: system.stack_counts(counted) for system in compared.systems}
    baseline = compared.baseline.name
    by_sentence = compare_rates(counts[baseline], counts, module.compute_measures, **drawing)
    by_run = {name: module.compute_measures(of_system.sum(1)) for name, of_system in counts.items()}
    rates: dict[str, dict[str, Any]] = {name: {} for name in counts}
    for place, measure in enumerate(module.MEASURES):
        if measure in TESTED:
            values = {one.name: one.by_training(by_run[one.name][:, place].tolist()) for one in compared.systems}
            by_seed = p_over_seeds(values.pop(baseline), values)
            for name, of_system in by_sentence.items():
                rates[name][measure] = of_system[place]._asdict() | {"p_seeds": by_seed.get(name)}
    return rates


def _count_source_words(sentence: Sentence) -> int:
    """Return the number of source words, without an end symbol; words between spaces if the words are not known."""
    words = sentence.source_words
    return len(words) - (words[-1] == SPECIAL[END]) if words else len(sentence.source.split())


def _compute_by_length(compared: ComparedSystems, resamples: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return BLEU and lengths by the length of the baseline's sources, and BLEU and gains on longer sentences."""
    lengths = [_count_source_words(sentence) for sentence in compared.baseline.members[0].evaluation.sentences]
    bounds = BOUNDS if np.percentile(lengths, 95) > LONG else SHORT_BOUNDS
    statistics = {system.name: system.stack_counts("statistics") for system in compared.systems}
    baseline = statistics[compared.baseline.name]
    selected = {"by_length": select_by_length(lengths, bounds), "longer_than": select_longer(lengths, (0, *bounds))}
    kinds = {kind: compare_buckets(one, baseline, statistics, resamples=resamples) for kind, one in selected.items()}
    others = {name: of_system for name, of_system in statistics.items() if name != compared.baseline.name}
    longer = compare_longer(lengths, baseline, others, bounds=bounds, resamples=resamples)
    return {
        kind: {name: [bucket._asdict() | change._asdict() for bucket, change in pairs] for name, pairs in rows.items()}
        for kind, rows in kinds.items()
    } | {"longer": {name: [gain._asdict() for gain in gains] for name, gains in longer.items()}}
