"""Fill figures into the text of a study, from the tables that it reads.

    {bleu of local_m_general less local_m_dot}         1.89 and 3.76, one figure for each test set
    {bleu_tokenized of words less 39.00 and 31.25:.1f} a published figure is given as it is, for each test set
    {chrf of words less attention=additive on test_2017:.1f}
    {bleu of four_seeds less chrf of dot}              the other system by another score
    {gain_beyond_30 of interactive}                    from the table of gains on longer sentences
    {seconds of interactive:.0f}                       of training
    {bleu of best_2 less attention=dot & local_m}      the mean of two systems
    {bleu_p_seeds of interactive less attention=dot}   p of this difference; the other system is a baseline
    {aer_p_sentences_corrected of dot less additive}   p corrected (Holm), as in the leaderboard
    {bleu_low of dot less additive}                    the 95 % interval begins here; bleu_high: and ends here

A system is named as in the tables, or by a part of its name that no other has. `in STUDY` takes another study's tables.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from nmt.errors import ConfigurationError
from nmt.report.render.markdown import format_p
from studies.summary_table import correct, list_comparisons

FIGURE = re.compile(
    r"(?P<score>\w+) of (?P<system>.+?)"
    r"(?: less (?P<other>.+?))?(?: on (?P<test>\S+?))?(?: in (?P<study>\w+))?(?::(?P<form>\.\df))?"
)
COMPARED = re.compile(r"(?P<measure>\w+?)_(?P<value>p_sentences|p_seeds|low|high)(?P<corrected>_corrected)?")
GAIN_BEYOND = re.compile(r"gain_beyond_(\d+)")
PUBLISHED = re.compile(r"\d+\.\d+(?: and \d+\.\d+)*")
GRAMMAR = "{SCORE of SYSTEM}, then optionally: less SYSTEM, on TEST, in STUDY, :.1f"


def fill_in_figures(text: str, study: str, kept: Mapping[str, Any]) -> str:
    """Replace each {…} of a study's text; `kept` holds the tables of all studies."""
    return re.sub(r"\{([^{}]*)\}", lambda match: _figure(" ".join(match[1].split()), study, kept), text)


def _figure(text: str, study: str, kept: Mapping[str, Any]) -> str:
    place = f"{study}: {{{text}}}"
    figure = FIGURE.fullmatch(text)
    if figure is None:
        raise ConfigurationError(f"{place}: is no figure. Fix: write {GRAMMAR}")
    of_study = kept[_find(figure["study"] or study, list(kept), "study", place)]
    tests = of_study["tests"]
    names = [_find(figure["test"], list(tests), "test set", place)] if figure["test"] else list(tests)
    if compared := COMPARED.fullmatch(figure["score"]):
        results = [_compare(figure, compared, of_study, name, place) for name in names]
        form = format_p if compared["value"].startswith("p_") else _formatter(figure)
        return " and ".join(map(form, results))
    values = [_mean(figure["system"], figure["score"], tests[name], place) for name in names]
    if figure["other"]:
        others = _others(figure, [tests[name] for name in names], place)
        values = [value - other for value, other in zip(values, others, strict=True)]
    return " and ".join(map(_formatter(figure), values))


def _formatter(figure: re.Match[str]) -> Callable[[float], str]:
    return lambda value: f"{value:{figure['form'] or '.2f'}}".replace("-", "−")


def _compare(
    figure: re.Match[str], compared: re.Match[str], of_study: Mapping[str, Any], test: str, place: str
) -> float:
    """Return p, or an end of the interval, of a system's difference to a baseline."""
    by_baseline = {
        _baseline(tests): tests for tests in (of_study["tests"], *of_study.get("other_baselines", {}).values())
    }
    tests = by_baseline[_find(figure["other"] or "", list(by_baseline), "baseline", place)]
    comparisons = list_comparisons(tests)
    if compared["corrected"]:
        comparisons = correct(comparisons)
    measure = _find(compared["measure"], sorted({one.measure for one in comparisons}), "measure", place)
    of_test = {one.system: one for one in comparisons if (one.measure, one.test) == (measure, test)}
    system = _find(figure["system"], list(of_test), "system", place)
    value = getattr(of_test[system], compared["value"])
    if value is None:
        raise ConfigurationError(f"{place}: {system} has no {figure['score']}")
    return value


def _baseline(tests: Mapping[str, Any]) -> str:
    return next(iter(tests.values()))["baseline"]


def _others(figure: re.Match[str], tests: Sequence[Mapping[str, Any]], place: str) -> list[float]:
    """Return what is subtracted on each test set."""
    if not PUBLISHED.fullmatch(figure["other"]):
        score, _, systems = figure["other"].rpartition(" of ")
        return [_mean(systems, score or figure["score"], tables, place) for tables in tests]
    published = [float(number) for number in figure["other"].split(" and ")]
    if len(published) != len(tests):
        raise ConfigurationError(f"{place}: needs a published figure for each of {len(tests)} test sets")
    return published


def _mean(systems: str, score: str, tables: Mapping[str, Any], place: str) -> float:
    return mean(_value(system, score, tables, place) for system in systems.split(" & "))


def _value(part: str, score: str, tables: Mapping[str, Any], place: str) -> float:
    """Return a system's score; rates have a table of their own, over all sentences of all seeds."""
    rows = {row["system"]: row for row in tables["systems"]}
    system = _find(part, list(rows), "system", place)
    for kind in ("adequacy", "alignment"):
        if rate := tables[kind].get(system, {}).get(score):
            return rate["value"]
    if beyond := GAIN_BEYOND.fullmatch(score):
        gains = {gain["than"]: gain["difference"] for gain in tables.get("longer", {}).get(system, [])}
        if int(beyond[1]) not in gains:
            lengths = ", ".join(map(str, gains)) or "none"
            raise ConfigurationError(f"{place}: no length {beyond[1]}; there are {lengths}")
        return gains[int(beyond[1])]
    scores = rows[system]["scores"] | {name: rows[system].get(name) for name in ("validation", "seconds")}
    value = scores[_find(score, list(scores), "score", place)]
    if value is None:
        raise ConfigurationError(f"{place}: {system} has no {score}")
    return value["mean"]


def _find(part: str, names: Sequence[str], kind: str, place: str) -> str:
    """Return the name that is meant: the same, or the only one with this part."""
    matches = [part] if part in names else [name for name in names if part in name]
    if not matches:
        raise ConfigurationError(f"{place}: no {kind} {part}; there are {', '.join(names)}")
    if len(matches) > 1:
        raise ConfigurationError(f"{place}: more than one {kind} {part}: {', '.join(matches)}")
    return matches[0]
