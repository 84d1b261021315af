"""Figures in prose, from the tables that it reads: {SCORE of SYSTEM}, {SCORE of SYSTEM less SYSTEM}, on each test set.

    {bleu of local_m_general less local_m_dot}         1.89 and 3.76
    {bleu_tokenized of words less 39.00 and 31.25:.1f} what was published elsewhere is given as it is, for each test set
    {chrf of words less attention=additive on test_2017:.1f}
    {bleu of four_seeds less chrf of dot}              as another score has it
    {gain_beyond_30 of interactive}                    of the table of gains on longer sentences
    {bleu of best_2 less attention=dot & local_m}      their mean

A system is named as in the tables, or by a part that no other name has; behind a figure may stand: in STUDY, another's.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from nmt.errors import ConfigurationError

FIGURE = re.compile(
    r"(?P<score>\w+) of (?P<system>.+?)"
    r"(?: less (?P<other>.+?))?(?: on (?P<test>\S+?))?(?: in (?P<study>\w+))?(?::(?P<form>\.\df))?"
)
GAIN_BEYOND = re.compile(r"gain_beyond_(\d+)")
PUBLISHED = re.compile(r"\d+\.\d+(?: and \d+\.\d+)*")


def with_figures(text: str, study: str, kept: Mapping[str, Any]) -> str:
    """`kept`: the tables of every study."""
    return re.sub(r"\{([^{}]*)\}", lambda found: _figure(" ".join(found[1].split()), study, kept), text)


def _figure(asked: str, study: str, kept: Mapping[str, Any]) -> str:
    found, where = FIGURE.fullmatch(asked), f"{study}: {{{asked}}}"
    if found is None:
        form = "{SCORE of SYSTEM}, then, if wanted, less SYSTEM, on TEST, in STUDY, :.1f"
        raise ConfigurationError(f"{where} is no figure; one is {form}")
    tests = kept[_named(found["study"] or study, list(kept), "study", where)]["tests"]
    on = [_named(found["test"], list(tests), "test set", where)] if found["test"] else list(tests)
    values = [_mean_of(found["system"], found["score"], tests[test], where) for test in on]
    if found["other"]:
        others = _others(found, [tests[test] for test in on], where)
        values = [value - other for value, other in zip(values, others, strict=True)]
    return " and ".join(f"{value:{found['form'] or '.2f'}}".replace("-", "−") for value in values)


def _others(found: re.Match[str], on: Sequence[Mapping[str, Any]], where: str) -> list[float]:
    if not PUBLISHED.fullmatch(found["other"]):
        score, _, systems = found["other"].rpartition(" of ")
        return [_mean_of(systems, score or found["score"], tables, where) for tables in on]
    published = [float(one) for one in found["other"].split(" and ")]
    if len(published) != len(on):
        raise ConfigurationError(f"{where}: needs a published figure for each of {len(on)} test sets")
    return published


def _mean_of(systems: str, score: str, tables: Mapping[str, Any], where: str) -> float:
    return mean(_value(system, score, tables, where) for system in systems.split(" & "))


def _value(part: str, score: str, tables: Mapping[str, Any], where: str) -> float:
    """As its table shows it: rates have one of their own, over all sentences of all seeds."""
    rows = {row["system"]: row for row in tables["systems"]}
    system = _named(part, list(rows), "system", where)
    for kind in ("adequacy", "alignment"):
        if rate := tables[kind].get(system, {}).get(score):
            return rate["value"]
    if beyond := GAIN_BEYOND.fullmatch(score):
        gains = {gain["than"]: gain["difference"] for gain in tables.get("longer", {}).get(system, [])}
        if int(beyond[1]) not in gains:
            raise ConfigurationError(
                f"{where}: no length {beyond[1]}; there are {', '.join(map(str, gains)) or 'none'}"
            )
        return gains[int(beyond[1])]
    scores = rows[system]["scores"] | {"validation": rows[system]["validation"]}
    told = scores[_named(score, list(scores), "score", where)]
    if told is None:
        raise ConfigurationError(f"{where}: {system} has no {score}")
    return told["mean"]


def _named(part: str, names: Sequence[str], kind: str, where: str) -> str:
    """Whole, or by a part that no other has."""
    meant = [part] if part in names else [name for name in names if part in name]
    if not meant:
        raise ConfigurationError(f"{where}: no {kind} {part}; there are {', '.join(names)}")
    if len(meant) > 1:
        raise ConfigurationError(f"{where}: more than one {kind} {part}; meant may be {', '.join(meant)}")
    return meant[0]
