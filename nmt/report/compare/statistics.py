"""What the page, the Markdown and the JSON say of systems set side by side: scores, rates and how sure they are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nmt.data.vocabulary import END, SPECIAL
from nmt.evaluation import alignment_error
from nmt.evaluation import over_under_translation as adequacy
from nmt.evaluation.by_length import BOUNDS, compare_by_length, compare_longer
from nmt.evaluation.significance import compare_rates, compare_systems, over_seeds, spread_over_seeds
from nmt.report.compare.mean_std import spread
from nmt.report.compare.systems import Compared, Field, System, not_independent
from nmt.report.load.evaluation import Sentence
from nmt.report.load.run_folder import RunFolder
from nmt.report.load.safe_files import is_number, showable

LOWER_IS_BETTER = ("ter", "tb", "words_", "source_unattended", "loss", "perplexity", "aer", "saer", "repeated_")
BEST_AT_1 = ("length_ratio",)
NEITHER = ("attention_entropy",)  # more is not better, nor less
TESTED = ("words_too_often", "words_left_out", "repeated_1grams", "repeated_2grams")  # of `adequacy.MEASURES`, with p
SURE = 1  # among what alignment error is made of: the number of sure links
SHORT_BOUNDS = (5, 10, 15, 20, 25, 30)  # where few sources are longer
LONG = 30


def tabulated(found: Field, resamples: int, together: int = 1) -> dict[str, Any]:
    first = found.baseline.members[0].on
    drawing = {"resamples": resamples, "together": together}
    differences = _differences(found, drawing)
    over = spread_over_seeds(system.bleu_by_training for system in found.systems)
    tables = {
        "test": found.test,
        "sentences": len(first.sentences),
        "signature": first.signatures.get("bleu", ""),
        "baseline": found.baseline.name,
        **drawing,
        "scores": _score_names(found.runs),
        "validation": _monitored(found.runs),
        "spread_over_seeds": over._asdict() if over else None,
        "settings": list(found.systems[0].settings),
        "systems": [_row(system, differences.get(system.name)) for system in found.systems],
        **_by_length(found, resamples),
        "adequacy": _adequacy(found, drawing),
        "alignment": _alignment(found, drawing),
        "not_compared": [one._asdict() for one in found.left_out],
        "notes": [
            *({"run": one.name, "note": note} for one in found.runs for note in one.run.notes),
            *({"run": one.name, "note": note} for system in found.systems for one, note in not_independent(system)),
            *({"run": one.name, "note": note} for one, note in _of_other_code(found)),
            *({"run": one.name, "note": note} for one, note in _gone_on_with(found)),
            *({"run": one.name, "note": note} for one, note in _of_other_gold(found)),
        ],
    }
    return showable(tables)


def _of_other_code(found: Field) -> Iterator[tuple[Compared, str]]:
    """What is told apart is then not the settings alone."""
    first = found.baseline.members[0]
    for one in found.runs:
        if None not in (one.run.code, first.run.code) and one.run.code != first.run.code:
            yield one, f"trained by other code of nmt/model or nmt/training than {first.name}"


def _gone_on_with(found: Field) -> Iterator[tuple[Compared, str]]:
    for one in found.runs:
        if checkpoint := one.run.summary.get("went_on_with"):
            yield one, f"went on with {checkpoint}: was not trained by its settings and data alone"


def _of_other_gold(found: Field) -> Iterator[tuple[Compared, str]]:
    first = found.baseline.members[0]
    for one in found.runs:
        given = (one.on.alignment_counts, first.on.alignment_counts)
        if all(counts is not None for counts in given) and not _same_gold(given):
            yield one, f"its alignments were compared with others made by hand than those of {first.name}"


def _same_gold(given: Sequence[np.ndarray]) -> bool:
    return len({one[:, SURE].tobytes() for one in given}) == 1


def _score_names(runs: Sequence[Compared]) -> list[dict[str, str]]:
    names = dict.fromkeys(name for one in runs for name in one.on.scores)
    signatures = {name: signed for one in runs for name, signed in one.on.signatures.items()}
    return [
        {
            "name": name,
            "better": _better(name),
            "signature": signatures.get(name, ""),
        }
        for name in names
    ]


def _monitored(runs: Sequence[Compared]) -> str | None:
    """What all runs chose their best checkpoint by; None where it is not the same."""
    names = {one.run.best.get("metric") for one in runs} - {None}
    return names.pop() if len(names) == 1 else None


def _better(score: str) -> str:
    if score in NEITHER:
        return "neither"
    return "nearest 1" if score in BEST_AT_1 else "lower" if score.startswith(LOWER_IS_BETTER) else "higher"


def _row(system: System, difference: dict[str, Any] | None) -> dict[str, Any]:
    members = system.once_a_seed
    names = dict.fromkeys(name for one in members for name in one.on.scores)
    summaries = [one.run.summary for one in members]
    parameters = summaries[0].get("parameters")
    total = parameters.get("total") if isinstance(parameters, Mapping) else None
    return {
        "system": system.name,
        "runs": [one.name for one in members],
        "seeds": [one.run.seed for one in members],
        "scores": {name: spread([one.on.scores.get(name) for one in members]) for name in names},
        "difference": difference,
        "validation": spread([one.run.best.get("score") for one in members]),
        "parameters": total if is_number(total) else None,
        "tokens_per_second": spread([_speed(one.run) for one in members]),
        "seconds": spread([summary.get("wall_seconds") for summary in summaries]),
        "steps": spread([summary.get("steps") for summary in summaries]),
        "settings": system.settings,
    }


def _speed(run: RunFolder) -> float | None:
    last = run.summary.get("last")
    return run.curves.speed or (last.get("train/tokens_per_second") if isinstance(last, Mapping) else None)


def _differences(found: Field, drawing: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """To the baseline, of all systems but itself: over sentences, and over seeds."""
    own = found.baseline
    others = [system for system in found.systems if system is not own]
    if not others:
        return {}
    statistics = {system.name: system.statistics for system in others}
    by_sentence = compare_systems(own.statistics, statistics, **drawing)
    by_seed = over_seeds(own.bleu_by_training, {system.name: system.bleu_by_training for system in others})
    return {
        system.name: {
            "bleu": system.bleu - own.bleu,
            "by_sentence": _by_sentence(by_sentence[place]),
            "p_seeds": by_seed[system.name],
        }
        for place, system in enumerate(others, start=1)
    }


def _by_sentence(comparison: Any) -> dict[str, Any]:
    kept = ("difference", "difference_low", "difference_high", "p_bootstrap", "p_randomization", "p_sign")
    return {name: getattr(comparison, name) for name in (*kept, "better", "worse")}


def _adequacy(found: Field, drawing: Mapping[str, int]) -> dict[str, dict[str, dict[str, Any]]]:
    """Over- and under-translation of each system."""
    counts = {system.name: np.array([one.on.adequacy for one in system.once_a_seed]) for system in found.systems}
    places = {measure: adequacy.MEASURES.index(measure) for measure in TESTED}
    return _rates(found, counts, adequacy.in_per_cent, places, drawing)


def _alignment(found: Field, drawing: Mapping[str, int]) -> dict[str, dict[str, dict[str, Any]]]:
    """Alignment errors, where all have them and of the same gold."""
    given = [one.on.alignment_counts for one in found.runs]
    if any(one is None for one in given) or not _same_gold(given):
        return {}
    counts = {
        system.name: np.array([one.on.alignment_counts for one in system.once_a_seed]) for system in found.systems
    }
    places = {measure: place for place, measure in enumerate(alignment_error.MEASURES)}
    return _rates(found, counts, alignment_error.in_per_cent, places, drawing)


def _rates(
    found: Field,
    counts: Mapping[str, np.ndarray],
    in_per_cent: Callable[[np.ndarray], np.ndarray],
    places: Mapping[str, int],
    drawing: Mapping[str, int],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Measures, by their places in what `in_per_cent` makes of each system's counts; the baseline's differ from
    themselves by nothing."""
    rates = compare_rates(counts[found.baseline.name], counts, in_per_cent, **drawing)
    of_runs = {name: in_per_cent(of_system.sum(1)) for name, of_system in counts.items()}
    told: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in counts}
    for measure, place in places.items():
        values = {one.name: one.by_training(of_runs[one.name][:, place].tolist()) for one in found.systems}
        by_seed = over_seeds(values.pop(found.baseline.name), values)
        for name, of_system in rates.items():
            told[name][measure] = of_system[place]._asdict() | {"p_seeds": by_seed.get(name)}
    return told


def _length(sentence: Sentence) -> int:
    """In source words, without the end that a source may have; in the source's own where none are known."""
    words = sentence.source_words
    return len(words) - (words[-1] == SPECIAL[END]) if words else len(sentence.source.split())


def _by_length(found: Field, resamples: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Lengths are those of the baseline's source words."""
    lengths = [_length(one) for one in found.baseline.members[0].on.sentences]
    bounds = BOUNDS if np.percentile(lengths, 95) > LONG else SHORT_BOUNDS
    own, statistics = found.baseline.statistics, {system.name: system.statistics for system in found.systems}
    told = compare_by_length(lengths, own, statistics, bounds=bounds, resamples=resamples)
    others = {name: of_system for name, of_system in statistics.items() if name != found.baseline.name}
    longer = compare_longer(lengths, own, others, bounds=bounds, resamples=resamples)
    return {
        "by_length": {name: [bucket._asdict() | apart._asdict() for bucket, apart in of] for name, of in told.items()},
        "longer": {name: [one._asdict() for one in of_system] for name, of_system in longer.items()},
    }
