"""The leaderboard of a study: every system on all test sets, with p corrected for all comparisons."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from nmt.evaluation.significance import holm
from nmt.report.compare.mean_std import format_mean
from nmt.report.load.run_names import remove_seed
from nmt.report.render.markdown import format_difference, format_p, format_score_name, format_signed
from nmt.report.render.table import Bold, Table

SIGNIFICANT = 0.05
P_VALUES = ("p_sentences", "p_seeds")


class Comparison(NamedTuple):
    """A system against the baseline on a test set, by one measure."""

    measure: str
    test: str
    system: str
    value: float
    difference: float
    p_sentences: float | None
    p_seeds: float | None
    low: float | None = None  # of the 95 % interval over sentences
    high: float | None = None

    @property
    def holds(self) -> bool:
        """True if other sentences and newly trained models would show the difference too."""
        return None not in (self.p_sentences, self.p_seeds) and max(self.p_sentences, self.p_seeds) < SIGNIFICANT


def render_summary(tests: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the leaderboard, and a table of other differences that sentences show."""
    by_bleu = correct(_compare_bleu(tests))
    others = [one for one in correct(_compare_rates(tests)) if (one.p_sentences or 1) < SIGNIFICANT]
    with_seeds = {one.test for one in by_bleu if one.p_seeds is not None}
    deviations = {test: tables["spread_over_seeds"] for test, tables in tests.items() if test in with_seeds}
    lines = [*([_introduce(by_bleu, tests, deviations), ""] if by_bleu else []), *_leaderboard(tests, by_bleu), ""]
    if others:
        both = " Bold: both p are below 0.05." if deviations else ""
        text = (
            "Other differences that show over sentences, for each 100 words of the reference or in per cent. Each p is "
            f"corrected (Holm) for all comparisons by the same measure that have this p.{both}"
        )
        heads = ["", "test set", "system", "", "Δ", "p (sentences)", "p (seeds)"]
        lines += [text, "", *Table(heads, [_row(one) for one in others]).drop_empty_columns().to_markdown(), ""]
    return "\n".join(lines)


def _introduce(by_bleu: Sequence[Comparison], tests: Mapping[str, Any], deviations: Mapping[str, Any]) -> str:
    order = "The best average comes first." if len(tests) > 1 else "The best comes first."
    with_seeds = sum(one.p_seeds is not None for one in by_bleu)
    fewer = f" (p over seeds: for the {with_seeds} that have one)" if 0 < with_seeds < len(by_bleu) else ""
    text = f"{order} Each p is corrected (Holm) for the {len(by_bleu)} comparisons of this table{fewer}."
    if deviations:
        pooled = ", ".join(f"{one['deviation']:.2f} BLEU on {test}" for test, one in deviations.items())
        text += f" p over seeds uses the pooled deviation of all systems, {pooled}. Bold: both p are below 0.05."
    return f"{text} The 95 % intervals of Δ are over sentences and uncorrected."


def _row(one: Comparison) -> list[str]:
    name, difference = format_score_name(one.measure), format_signed(one.difference)
    return [name, one.test, one.system, f"{one.value:.2f}", *_with_p(difference, one)]


def _with_p(difference: str, one: Comparison) -> list[str]:
    return [Bold(difference) if one.holds else difference, format_p(one.p_sentences), format_p(one.p_seeds)]


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct p for all comparisons by the same measure, on all test sets (Holm)."""
    corrected = list(comparisons)
    for measure in dict.fromkeys(one.measure for one in comparisons):
        for kind in P_VALUES:
            places = [
                place
                for place, one in enumerate(comparisons)
                if one.measure == measure and getattr(one, kind) is not None
            ]
            values = holm([getattr(comparisons[place], kind) for place in places])
            for place, value in zip(places, values, strict=True):
                corrected[place] = corrected[place]._replace(**{kind: value})
    return corrected


def list_comparisons(tests: Mapping[str, Mapping[str, Any]]) -> list[Comparison]:
    """Return each system's comparisons with the baseline, by each measure that is tested."""
    return [*_compare_bleu(tests), *_compare_rates(tests)]


def _compare_bleu(tests: Mapping[str, Mapping[str, Any]]) -> list[Comparison]:
    return [
        Comparison(
            "bleu",
            test,
            name,
            row["scores"]["bleu"]["mean"],
            difference["bleu"],
            difference["by_sentence"]["p_bootstrap"],
            difference["p_seeds"],
            difference["by_sentence"]["difference_low"],
            difference["by_sentence"]["difference_high"],
        )
        for test, tables in tests.items()
        for name, row in _rows_by_name(tables["systems"]).items()
        if (difference := row["difference"])
    ]


def _compare_rates(tests: Mapping[str, Mapping[str, Any]]) -> list[Comparison]:
    comparisons = [
        Comparison(measure, test, name, rate["value"], rate["difference"], rate["p"], rate["p_seeds"])
        for test, tables in tests.items()
        for name, row in _rows_by_name(tables["systems"]).items()
        if row["system"] != tables["baseline"]
        for kind in ("adequacy", "alignment")
        for measure, rate in tables.get(kind, {}).get(row["system"], {}).items()
    ]
    measures = list(dict.fromkeys(one.measure for one in comparisons))
    return sorted(comparisons, key=lambda one: measures.index(one.measure))


def _leaderboard(tests: Mapping[str, Mapping[str, Any]], by_bleu: Sequence[Comparison]) -> list[str]:
    """Return a row for each system; those that are not on all test sets come last."""
    rows = {test: _rows_by_name(tables["systems"]) for test, tables in tests.items()}
    systems = dict.fromkeys(system for of_test in rows.values() for system in of_test)
    scored = {system: [of_test[system] for of_test in rows.values() if system in of_test] for system in systems}
    bleu = {system: mean(row["scores"]["bleu"]["mean"] for row in of_system) for system, of_system in scored.items()}
    comparisons = {(one.test, one.system): one for one in by_bleu}
    metrics = {tables["validation"] for tables in tests.values()}
    metric = metrics.pop() if len(metrics) == 1 else None
    heads = ["system", "n", "parameters", metric or ""]
    heads += [head for test in tests for head in (f"BLEU {test}", "Δ", "p (sentences)", "p (seeds)")]
    lines = []
    for system in sorted(systems, key=lambda system: (-len(scored[system]), -bleu[system])):
        first = scored[system][0]
        count = " / ".join(dict.fromkeys(str(len(row["runs"])) for row in scored[system]))
        parameters = "" if first["parameters"] is None else f"{first['parameters']:,}"
        cells = [system, count, parameters, format_mean(first["validation"]) if metric else ""]
        for test, tables in tests.items():
            cells += _cells(rows[test].get(system), tables["baseline"], comparisons.get((test, system)))
        lines.append(cells)
    return Table(heads, lines).drop_empty_columns().to_markdown()


def _rows_by_name(systems: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the rows by name without the seed, which stands in a name only where a system has one seed."""
    bare = [remove_seed(row["system"]) for row in systems]
    return {name if bare.count(name) == 1 else row["system"]: row for name, row in zip(bare, systems, strict=True)}


def _cells(row: Mapping[str, Any] | None, baseline: str, comparison: Comparison | None) -> list[str]:
    """Return the cells of one test set."""
    if row is None:
        return [""] * 4
    bleu = format_mean(row["scores"]["bleu"])
    if comparison is None:
        return [bleu, "baseline" if row["system"] == baseline else "", "", ""]
    return [bleu, *_with_p(format_difference(row["difference"]), comparison)]
