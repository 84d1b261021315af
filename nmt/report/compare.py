"""`compare.py`: runs of one test set side by side, as a page, as Markdown and as JSON.

Runs are compared whose sources, references and way to count BLEU are the same; all others are listed with the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig

from nmt.command import defaults_of
from nmt.data.vocabulary import END, SPECIAL
from nmt.errors import ConfigurationError, UserError, closest
from nmt.evaluation import adequacy, alignment_error
from nmt.evaluation.by_length import BOUNDS, by_length
from nmt.evaluation.significance import compare_rates, compare_systems, over_seeds, spread_over_seeds
from nmt.report.evaluated import Evaluated, Sentence
from nmt.report.markdown import markdown
from nmt.report.page import assembled, contents
from nmt.report.reading import UnreadableError, is_number, showable
from nmt.report.runs import LeftOut, RunFolder, find_runs
from nmt.report.settings import differing, folded, name_of_system, name_runs, settings_of, unique, without_seed
from nmt.report.spread import spread
from nmt.whole import write_json, write_text

LOWER_IS_BETTER = ("ter", "tb", "words_", "source_unattended", "loss", "perplexity", "aer", "saer", "repeated_")
BEST_AT_1 = ("length_ratio",)
TESTED = ("words_too_often", "words_left_out", "repeated_1grams", "repeated_2grams")  # of `adequacy.MEASURES`, with p
SURE = 1  # among what alignment error is made of: the number of sure links
SHORT_BOUNDS = (5, 10, 15, 20, 25, 30)  # where few sources are longer
LONG = 30
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
    def statistics(self) -> np.ndarray:
        """(run, sentence, 10): what BLEU is made of."""
        return np.array([one.on.statistics for one in self.members])

    @property
    def once_a_seed(self) -> list[int]:
        """Places of the members that are no run of a seed again, which would tell nothing of training anew."""
        again = {one.name for one, _ in _not_independent(self)}
        return [place for place, one in enumerate(self.members) if one.name not in again]

    @property
    def bleu_by_seed(self) -> list[float]:
        return [self.members[place].on.scores["bleu"] for place in self.once_a_seed]


class Field(NamedTuple):
    """All that was found."""

    test: str
    systems: list[System]  # the best BLEU first
    baseline: System
    left_out: list[LeftOut]

    @property
    def runs(self) -> list[Compared]:
        return [member for system in self.systems for member in system.members]


def folders_and_keys(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders of sweeps have = in their names: KEY=VALUE is what begins with a key there is."""
    known = [str(key) for key in defaults_of("compare")]
    keys, folders = [], []
    for argument in arguments:
        key, is_pair, _ = argument.partition("=")
        if (is_pair and key in known) or argument in ("-h", "--help", "help"):
            keys.append(argument)
        elif is_pair and "/" not in argument and not Path(argument).exists():
            raise ConfigurationError(f"{argument}: no such key and no such folder; keys are {', '.join(known)}")
        else:
            folders.append(argument)
    return folders, keys


def compare(folders: Sequence[str], settings: DictConfig) -> str:
    """Writes the page and its tables; one line that says what was compared."""
    output = _output(settings)
    if not folders:
        raise UserError("nothing to compare: python compare.py RUN_OR_SWEEP …; --help says more")
    found = compared(folders, settings.test, settings.baseline)
    content = contents(found, settings.megabytes * 1e6)
    tables = tabulated(found, settings.resamples)
    write_text(output, assembled(tables, content))
    write_text(output.with_suffix(".md"), markdown(tables))
    write_json(output.with_suffix(".json"), tables)
    return f"{output}, {output.stem}.md, {output.stem}.json: {_said(found)}; {output.stat().st_size / 1e6:.1f} MB"


def _said(found: Field) -> str:
    sentences = len(found.runs[0].on.sentences)
    counts = ((len(found.systems), "system"), (len(found.runs), "run"), (sentences, "sentence"))
    systems, runs, sentences = (f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts)
    others = f"; {len(found.left_out)} not compared" if found.left_out else ""
    return f"{systems} of {runs} on {found.test}, {sentences}{others}"


def _output(settings: DictConfig) -> Path:
    output = Path(str(settings.output))
    if output.suffix != ".html":
        raise ConfigurationError(f"output={output}: must end with .html; the tables lie beside it as .md and .json")
    for key, least in (("resamples", 1), ("megabytes", 0)):
        if settings[key] < least:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least {least}")
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


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
    return Field(test, sorted(systems, key=lambda system: -_bleu(system)), own, left_out)


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


def _bleu(system: System) -> float:
    return mean(member.on.scores["bleu"] for member in system.members)


def tabulated(found: Field, resamples: int) -> dict[str, Any]:
    """What the page, the Markdown and the JSON say."""
    first = found.baseline.members[0].on
    differences = _differences(found, resamples)
    over = spread_over_seeds(system.bleu_by_seed for system in found.systems)
    tables = {
        "test": found.test,
        "sentences": len(first.sentences),
        "signature": first.signatures.get("bleu", ""),
        "baseline": found.baseline.name,
        "resamples": resamples,
        "scores": _score_names(found.runs),
        "validation": _monitored(found.runs),
        "spread_over_seeds": over._asdict() if over else None,
        "settings": list(found.systems[0].settings),
        "systems": [_row(system, differences.get(system.name)) for system in found.systems],
        "by_length": _by_length(found, resamples),
        "adequacy": _adequacy(found, resamples),
        "alignment": _alignment(found, resamples),
        "not_compared": [one._asdict() for one in found.left_out],
        "notes": [
            *({"run": one.name, "note": note} for one in found.runs for note in one.run.notes),
            *({"run": one.name, "note": note} for system in found.systems for one, note in _not_independent(system)),
            *({"run": one.name, "note": note} for one, note in _of_other_code(found)),
            *({"run": one.name, "note": note} for one, note in _of_other_gold(found)),
        ],
    }
    return showable(tables)


def _not_independent(system: System) -> Iterator[tuple[Compared, str]]:
    """Runs with the seed of one before: ± and p are then of fewer runs than they seem."""
    first: dict[Any, Compared] = {}
    for one in system.members:
        other = first.setdefault(one.run.seed, one)
        if other is not one and one.run.seed is not None:
            yield one, f"has the seed of {other.name}, {one.run.seed}, and all else alike: no further run for ± and p"


def _of_other_code(found: Field) -> Iterator[tuple[Compared, str]]:
    """What is told apart is then not the settings alone."""
    first = found.baseline.members[0]
    for one in found.runs:
        if None not in (one.run.code, first.run.code) and one.run.code != first.run.code:
            yield one, f"trained by other code of nmt/model or nmt/training than {first.name}"


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
    return "nearest 1" if score in BEST_AT_1 else "lower" if score.startswith(LOWER_IS_BETTER) else "higher"


def _row(system: System, difference: dict[str, Any] | None) -> dict[str, Any]:
    members = system.members
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


def _differences(found: Field, resamples: int) -> dict[str, dict[str, Any]]:
    """To the baseline, of all systems but itself: over sentences, and over seeds."""
    own = found.baseline
    others = [system for system in found.systems if system is not own]
    if not others:
        return {}
    statistics = {system.name: system.statistics for system in others}
    by_sentence = compare_systems(own.statistics, statistics, resamples=resamples)
    by_seed = over_seeds(own.bleu_by_seed, {system.name: system.bleu_by_seed for system in others})
    return {
        system.name: {
            "bleu": _bleu(system) - _bleu(own),
            "by_sentence": _by_sentence(by_sentence[place]),
            "p_seeds": by_seed[system.name],
        }
        for place, system in enumerate(others, start=1)
    }


def _by_sentence(comparison: Any) -> dict[str, Any]:
    kept = ("difference", "difference_low", "difference_high", "p_bootstrap", "p_randomization", "p_sign")
    return {name: getattr(comparison, name) for name in (*kept, "better", "worse")}


def _adequacy(found: Field, resamples: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Over- and under-translation of each system."""
    counts = {system.name: np.array([one.on.adequacy for one in system.members]) for system in found.systems}
    places = {measure: adequacy.MEASURES.index(measure) for measure in TESTED}
    return _rates(found, counts, adequacy.in_per_cent, places, resamples)


def _alignment(found: Field, resamples: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Alignment errors, where all have them and of the same gold."""
    given = [one.on.alignment_counts for one in found.runs]
    if any(one is None for one in given) or not _same_gold(given):
        return {}
    counts = {system.name: np.array([one.on.alignment_counts for one in system.members]) for system in found.systems}
    places = {measure: place for place, measure in enumerate(alignment_error.MEASURES)}
    return _rates(found, counts, alignment_error.in_per_cent, places, resamples)


def _rates(
    found: Field,
    counts: Mapping[str, np.ndarray],
    in_per_cent: Callable[[np.ndarray], np.ndarray],
    places: Mapping[str, int],
    resamples: int,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Measures, by their places in what `in_per_cent` makes of each system's counts; the baseline's differ from
    themselves by nothing."""
    rates = compare_rates(counts[found.baseline.name], counts, in_per_cent, resamples=resamples)
    of_seeds = {system.name: in_per_cent(counts[system.name][system.once_a_seed].sum(1)) for system in found.systems}
    told: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in counts}
    for measure, place in places.items():
        values = {name: of_each[:, place].tolist() for name, of_each in of_seeds.items()}
        by_seed = over_seeds(values.pop(found.baseline.name), values)
        for name, of_system in rates.items():
            told[name][measure] = of_system[place]._asdict() | {"p_seeds": by_seed.get(name)}
    return told


def _length(sentence: Sentence) -> int:
    """In source words, without the end that a source may have; in the source's own where none are known."""
    words = sentence.source_words
    return len(words) - (words[-1] == SPECIAL[END]) if words else len(sentence.source.split())


def _by_length(found: Field, resamples: int) -> dict[str, Any]:
    """Lengths are those of the baseline's source words."""
    first = found.baseline.members[0].on
    lengths = [_length(one) for one in first.sentences]
    how = {"bounds": BOUNDS if np.percentile(lengths, 95) > LONG else SHORT_BOUNDS, "resamples": resamples}
    return {
        system.name: [bucket._asdict() for bucket in by_length(lengths, system.statistics, **how)]
        for system in found.systems
    }
