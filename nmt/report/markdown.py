"""A comparison's tables as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from nmt.report.settings import without_seed
from nmt.report.spread import shown

FIRST = ("bleu", "chrf", "ter", "perplexity", "aer")  # scores of the first table; all others follow in a second
CALLED = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "aer": "AER", "saer": "SAER"}


def markdown(tables: Mapping[str, Any]) -> str:
    return f"# Compared on {_text(tables['test'])}\n\n{sections(tables, level=2)}"


def sections(tables: Mapping[str, Any], level: int) -> str:
    """What there is to say of a comparison, under headings of this level."""
    names, mark = [score["name"] for score in tables["scores"]], "#" * level
    tested = list(tables.get("adequacy", {}).get(tables["baseline"], {}))  # in a table of their own, with p
    others = [name for name in names if name not in (*FIRST, *tested)]
    lines = [
        f"{tables['sentences']} sentences; ± is the standard deviation over seeds. Differences are to "
        f"{_text(tables['baseline'])}, in BLEU alone; p is two-sided and of each comparison by itself, over sentences "
        f"by paired bootstrap ({tables['resamples']} resamples, BLEU the mean over seeds), over seeds by permutation. "
        f"sacrebleu {_text(tables['signature'])}",
        "",
        *table(_leaderboard(tables, [name for name in FIRST if name in names])),
    ]
    if others:
        heads = ["system", *(words(name) for name in others)]
        rows = ([row["system"], *(shown(row["scores"].get(name)) for name in others)] for row in tables["systems"])
        lines += ["", f"{mark} Other scores", "", *table([heads, *rows])]
    lines += ["", f"{mark} BLEU by source length", "", *table(_by_length(tables["by_length"]))]
    if tested:
        lines += ["", f"{mark} Over- and under-translation", "", *_adequacy(tables, tested)]
    if tables["not_compared"]:
        rows = ([one["run"], one["reason"]] for one in tables["not_compared"])
        lines += ["", f"{mark} Not compared", "", *table([["run", "reason"], *rows])]
    if tables["notes"]:
        rows = ([one["run"], one["note"]] for one in tables["notes"])
        lines += ["", f"{mark} Notes", "", *table([["run", "note"], *rows])]
    return "\n".join(lines) + "\n"


def _adequacy(tables: Mapping[str, Any], tested: Sequence[str]) -> list[str]:
    heads = ["system", *(head for name in tested for head in (words(name), "Δ", "p"))]
    rows = []
    for system, rates in tables["adequacy"].items():
        own = system == tables["baseline"]
        cells = ((rate["value"], rate["difference"], rate["p"]) for rate in (rates[name] for name in tested))
        shown_cells = ([f"{value:.2f}", *(["baseline", ""] if own else [_signed(by), _p(p)])] for value, by, p in cells)
        rows.append([system, *(cell for of_measure in shown_cells for cell in of_measure)])
    about = (
        "For each 100 words of the (first) reference, in words as BLEU counts them; less is better. p over sentences."
    )
    return [about, "", *table([heads, *rows])]


def overview(tests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line a system: how good on each test set, and how far from the baseline; the best on average first, and
    last what was not on all of them."""
    rows = {test: _by_name(tables["systems"]) for test, tables in tests.items()}
    systems = dict.fromkeys(system for of_test in rows.values() for system in of_test)
    scored = {system: [of_test[system] for of_test in rows.values() if system in of_test] for system in systems}
    bleu = {system: mean(row["scores"]["bleu"]["mean"] for row in of_it) for system, of_it in scored.items()}
    heads = ["system", "n", *(cell for test in tests for cell in (f"BLEU {test}", "Δ", "p (sentences)", "p (seeds)"))]
    lines = [
        [
            system,
            " / ".join(dict.fromkeys(str(len(row["runs"])) for row in scored[system])),
            *(cell for test, tables in tests.items() for cell in _in_short(rows[test].get(system), tables["baseline"])),
        ]
        for system in sorted(systems, key=lambda system: (-len(scored[system]), -bleu[system]))
    ]
    return table([heads, *lines])


def _by_name(systems: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Without the seed, which is in the name where there is but one: there may be two on another test set."""
    bare = [without_seed(row["system"]) for row in systems]
    return {name if bare.count(name) == 1 else row["system"]: row for name, row in zip(bare, systems, strict=True)}


def _in_short(row: Mapping[str, Any] | None, baseline: str) -> list[str]:
    if row is None:
        return [""] * 4
    bleu, difference = shown(row["scores"]["bleu"]), row["difference"]
    if difference is None:
        return [bleu, "baseline" if row["system"] == baseline else "", "", ""]
    p = difference["by_sentence"]["p_bootstrap"], difference["p_seeds"]
    return [bleu, _signed(difference["bleu"]), *map(_p, p)]


def _leaderboard(tables: Mapping[str, Any], names: Sequence[str]) -> list[list[Any]]:
    several = any(len(row["runs"]) > 1 for row in tables["systems"])
    heads = ["system", *(["n"] if several else []), *(words(name) for name in names), "Δ BLEU", "p (sentences)"]
    heads += [*(["p (seeds)"] if several else []), "parameters", "tokens/s", "time", "steps", *tables["settings"]]
    rows = []
    for row in tables["systems"]:
        difference = row["difference"] or {}
        by_sentence = difference.get("by_sentence", {})
        rows.append(
            [
                row["system"],
                *([len(row["runs"])] if several else []),
                *(shown(row["scores"].get(name)) for name in names),
                "baseline" if row["system"] == tables["baseline"] else _signed(difference.get("bleu")),
                _p(by_sentence.get("p_bootstrap")),
                *([_p(difference.get("p_seeds"))] if several else []),
                "" if row["parameters"] is None else f"{row['parameters']:,}",
                shown(row["tokens_per_second"], digits=0),
                _time(row["seconds"]),
                shown(row["steps"], digits=0),
                *(_setting(row["settings"][name]) for name in tables["settings"]),
            ]
        )
    return [heads, *rows]


def _by_length(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[list[Any]]:
    buckets = {bucket["name"]: bucket["sentences"] for of_system in found.values() for bucket in of_system}
    heads = ["system", *(f"{name} ({count})" for name, count in buckets.items())]
    return [heads, *([system, *(_interval(bucket) for bucket in of)] for system, of in found.items())]


def _interval(bucket: Mapping[str, Any]) -> str:
    low, high = bucket["low"], bucket["high"]
    return f"{bucket['bleu']:.2f}" + ("" if low is None else f" [{low:.1f}, {high:.1f}]")


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}".replace("-", "−")


def _p(value: float | None) -> str:
    """Of n resamples p is 1 / (n + 1) at the least."""
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _time(seconds: Mapping[str, float] | None) -> str:
    return "" if seconds is None else clock(seconds["mean"])


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _setting(value: Any) -> str:
    return "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def words(name: str) -> str:
    """Of a score, as people call it."""
    return CALLED.get(name, name.replace("_", " "))


def table(rows: Iterable[Sequence[Any]]) -> list[str]:
    heads, *others = [[_text(cell) for cell in row] for row in rows]
    return [_line(heads), _line(["---"] * len(heads)), *map(_line, others)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(value: Any) -> str:
    """Nothing of it is markup; a single * is none."""
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "\\`")
    return text.replace("*", "\\*") if text.count("*") > 1 else text
