"""Systems on several test sets at once: how good each is, and what holds of all that was looked at."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from nmt.evaluation.significance import holm
from nmt.report.compare.mean_std import shown
from nmt.report.compare.setting_differences import without_seed
from nmt.report.render.markdown import Bold, apart, filled, p, signed, table, words

LUCK = 0.05


class Told(NamedTuple):
    """A system beside the baseline on a test set, by one measure; p by itself, or as `corrected` gives it."""

    measure: str
    test: str
    system: str
    value: float
    difference: float
    by_sentences: float | None
    by_seeds: float | None

    @property
    def holds(self) -> bool:
        """Of other sentences, and of models trained anew."""
        return None not in (self.by_sentences, self.by_seeds) and max(self.by_sentences, self.by_seeds) < LUCK


def in_short(tests: Mapping[str, Mapping[str, Any]]) -> str:
    bleu = corrected(_of_bleu(tests))
    others = [told for told in corrected(_of_rates(tests)) if (told.by_sentences or 1) < LUCK]
    told_over_seeds = {told.test for told in bleu if told.by_seeds is not None}
    spreads = {test: tables["spread_over_seeds"] for test, tables in tests.items() if test in told_over_seeds}
    of_seeds = ", ".join(f"{over['deviation']:.2f} BLEU on {test}" for test, over in spreads.items())
    both = f"; over seeds by the spread that all systems have together, {of_seeds}. What both find is in bold"
    first = "The best on average first" if len(tests) > 1 else "The best first"
    about = (
        f"{first}. p are corrected (Holm) for the {len(bleu)} comparisons of this table: over "
        f"sentences, of these runs{both if spreads else ''}. Δ has its 95 % interval over sentences, uncorrected."
    )
    lines = ["### In short", "", *([about, ""] if bleu else []), *_systems(tests, bleu), ""]
    if others:
        about = (
            "What sentences tell apart otherwise, for each 100 words of the reference, or in per cent; p are corrected "
            f"for all comparisons by a measure{', what both find is in bold' if spreads else ''}."
        )
        heads = ["", "test set", "system", "", "Δ", "p (sentences)", "p (seeds)"]
        lines += [about, "", *table(filled([heads, *map(_line_of, others)])), ""]
    return "\n".join(lines)


def _line_of(told: Told) -> list[str]:
    return [words(told.measure), told.test, told.system, f"{told.value:.2f}", *_with_p(signed(told.difference), told)]


def _with_p(difference: str, told: Told) -> list[str]:
    return [Bold(difference) if told.holds else difference, p(told.by_sentences), p(told.by_seeds)]


def corrected(found: Sequence[Told]) -> list[Told]:
    """By each measure, for all that were told by it on all test sets."""
    places: dict[str, list[int]] = {}
    for place, told in enumerate(found):
        places.setdefault(told.measure, []).append(place)
    done = list(found)
    for of_measure in places.values():
        for kind in ("by_sentences", "by_seeds"):
            known = [place for place in of_measure if getattr(found[place], kind) is not None]
            for place, value in zip(known, holm([getattr(found[place], kind) for place in known]), strict=True):
                done[place] = done[place]._replace(**{kind: value})
    return done


def _of_bleu(tests: Mapping[str, Mapping[str, Any]]) -> list[Told]:
    return [
        Told("bleu", test, name, row["scores"]["bleu"]["mean"], to_it["bleu"], *_p_of(to_it))
        for test, tables in tests.items()
        for name, row in _by_name(tables["systems"]).items()
        if (to_it := row["difference"])
    ]


def _p_of(difference: Mapping[str, Any]) -> tuple[float | None, float | None]:
    return difference["by_sentence"]["p_bootstrap"], difference["p_seeds"]


def _of_rates(tests: Mapping[str, Mapping[str, Any]]) -> list[Told]:
    told = [
        Told(measure, test, name, rate["value"], rate["difference"], rate["p"], rate["p_seeds"])
        for test, tables in tests.items()
        for name, row in _by_name(tables["systems"]).items()
        if row["system"] != tables["baseline"]
        for kind in ("adequacy", "alignment")
        for measure, rate in tables.get(kind, {}).get(row["system"], {}).items()
    ]
    measures = list(dict.fromkeys(one.measure for one in told))
    return sorted(told, key=lambda one: measures.index(one.measure))


def _systems(tests: Mapping[str, Mapping[str, Any]], told: Sequence[Told]) -> list[str]:
    """A line a system; last what was not on all test sets."""
    rows = {test: _by_name(tables["systems"]) for test, tables in tests.items()}
    systems = dict.fromkeys(system for of_test in rows.values() for system in of_test)
    scored = {system: [of_test[system] for of_test in rows.values() if system in of_test] for system in systems}
    bleu = {system: mean(row["scores"]["bleu"]["mean"] for row in of_it) for system, of_it in scored.items()}
    known = {(one.test, one.system): one for one in told}
    metrics = {tables["validation"] for tables in tests.values()}
    metric = metrics.pop() if len(metrics) == 1 else None
    heads = ["system", "n", "parameters", metric or ""]
    heads += [cell for test in tests for cell in (f"BLEU {test}", "Δ", "p (sentences)", "p (seeds)")]
    lines = []
    for system in sorted(systems, key=lambda system: (-len(scored[system]), -bleu[system])):
        first = scored[system][0]
        count = " / ".join(dict.fromkeys(str(len(row["runs"])) for row in scored[system]))
        parameters = "" if first["parameters"] is None else f"{first['parameters']:,}"
        cells = [system, count, parameters, shown(first["validation"]) if metric else ""]
        for test, tables in tests.items():
            cells += _on(rows[test].get(system), tables["baseline"], known.get((test, system)))
        lines.append(cells)
    return table(filled([heads, *lines]))


def _by_name(systems: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Without the seed, which is in the name where there is but one: there may be two on another test set."""
    bare = [without_seed(row["system"]) for row in systems]
    return {name if bare.count(name) == 1 else row["system"]: row for name, row in zip(bare, systems, strict=True)}


def _on(row: Mapping[str, Any] | None, baseline: str, told: Told | None) -> list[str]:
    """What a test set's columns say."""
    if row is None:
        return [""] * 4
    bleu = shown(row["scores"]["bleu"])
    if told is None:
        return [bleu, "baseline" if row["system"] == baseline else "", "", ""]
    return [bleu, *_with_p(apart(row["difference"]), told)]
