"""A comparison's tables as Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nmt.report.compare.mean_std import shown

FIRST = ("bleu", "chrf", "ter", "perplexity", "aer")  # scores of the first table; all others follow in a second
CALLED = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "aer": "AER", "saer": "SAER"}
ADEQUACY = (
    "For each 100 words of the (first) reference, in words as BLEU counts them; less is better. Words too often and "
    "left out are what precision and recall of single words lack, synonyms among them: a worse translation has more of "
    "both. What is said again is nearer to what coverage is for."
)
LONGER = (
    "How much more BLEU a system gains over the baseline on sentences longer than so many source words than on all "
    "others (how many are longer), with its 95 % interval over sentences."
)
ALIGNMENT = (
    "Of attention while the references are said, in per cent; less is better. SAER takes the weights as they are, so "
    "that it changes with how sharp they are, and where they do not sum to one."
)


class Bold(str):
    """Is so in a table."""


def markdown(tables: Mapping[str, Any]) -> str:
    return f"# Compared on {_text(tables['test'])}\n\n{sections(tables, level=2)}"


def sections(tables: Mapping[str, Any], level: int) -> str:
    """What there is to say of a comparison, under headings of this level."""
    lines = [_about(tables), "", *table(filled(_leaderboard(tables)))]
    for heading, said in _parts(tables):
        lines += ["", f"{'#' * level} {heading}", "", *said]
    return "\n".join(lines) + "\n"


def _about(tables: Mapping[str, Any]) -> str:
    over, by_seeds = tables["spread_over_seeds"], ""
    if over:
        by_seeds = (
            ", over seeds by Student's t with the spread that all systems have together "
            f"({over['deviation']:.2f} BLEU, {over['degrees']} degrees of freedom)"
        )
    return (
        f"{tables['sentences']} sentences; ± is the standard deviation over seeds. Differences are to "
        f"{_text(tables['baseline'])}, in BLEU alone, with 95 % intervals over sentences; p is two-sided and of each "
        f"comparison by itself: over sentences by paired bootstrap ({tables['resamples']} "
        f"resamples{_together(tables)}, BLEU the mean over seeds){by_seeds}. sacrebleu {_text(tables['signature'])}"
    )


def _together(tables: Mapping[str, Any]) -> str:
    together = tables.get("together", 1)
    return f", {together} sentences at a time" if together > 1 else ""


def _parts(tables: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    tested = list(tables["adequacy"][tables["baseline"]])  # in a table of their own, with p
    aligned = list(tables.get("alignment", {}).get(tables["baseline"], {}))  # and these
    if others := _other_scores(tables, besides=(*FIRST, *tested, *aligned)):
        yield "Other scores", others
    yield "BLEU by source length", _by_length(tables)
    if longer := _longer(tables.get("longer", {})):  # earlier code kept none
        yield "Gain on longer sentences", longer
    rates = _rates(tables["adequacy"], tables["baseline"], tested)
    yield "Over- and under-translation", [ADEQUACY, "", *rates]
    if aligned:
        yield "Alignment error", [alignment(tables).rstrip("\n")]
    if tables["not_compared"]:
        rows = ([one["run"], one["reason"]] for one in tables["not_compared"])
        yield "Not compared", table([["run", "reason"], *rows])
    if tables["notes"]:
        rows = ([one["run"], one["note"]] for one in tables["notes"])
        yield "Notes", table([["run", "note"], *rows])


def _other_scores(tables: Mapping[str, Any], besides: Sequence[str]) -> list[str]:
    names = [score["name"] for score in tables["scores"] if score["name"] not in besides]
    columns = {name: [shown(row["scores"].get(name)) for row in tables["systems"]] for name in ["bleu", *names]}
    bleu = columns.pop("bleu")
    if columns.get("bleu_lowercase") == bleu:  # of lowercased text it is the same, and cased BLEU says nothing
        del columns["bleu_lowercase"]
        columns.pop("bleu_13a", None)
    if not columns:
        return []
    rows = zip((row["system"] for row in tables["systems"]), *columns.values(), strict=True)
    return table(filled([["system", *map(words, columns)], *rows]))


def alignment(tables: Mapping[str, Any]) -> str:
    """The least error first."""
    found, baseline = tables["alignment"], tables["baseline"]
    if not found:
        return "Not all systems were compared with the same alignments made by hand.\n"
    measured = list(found[baseline])
    best_first = dict(sorted(found.items(), key=lambda of_system: of_system[1][measured[0]]["value"]))
    return "\n".join([ALIGNMENT, "", *_rates(best_first, baseline, measured)]) + "\n"


def _rates(found: Mapping[str, Any], baseline: str, tested: Sequence[str]) -> list[str]:
    heads = ["system", *(head for name in tested for head in (words(name), "Δ", "p (sentences)", "p (seeds)"))]
    rows = []
    for system, rates in found.items():
        own = system == baseline
        rows.append([system])
        for rate in map(rates.get, tested):
            with_p = ["baseline", "", ""] if own else [signed(rate["difference"]), p(rate["p"]), p(rate["p_seeds"])]
            rows[-1] += [f"{rate['value']:.2f}", *with_p]
    return table(filled([heads, *rows]))


def _leaderboard(tables: Mapping[str, Any]) -> list[list[Any]]:
    there = {score["name"] for score in tables["scores"]}
    names = [name for name in FIRST if name in there]
    several = any(len(row["runs"]) > 1 for row in tables["systems"])
    heads = ["system", *(["n"] if several else []), *(words(name) for name in names), "Δ BLEU", "p (sentences)"]
    heads += ["p (seeds)", tables["validation"] or "", "parameters", "tokens/s", "time", "steps", *tables["settings"]]
    rows = []
    for row in tables["systems"]:
        difference = row["difference"] or {}
        by_sentence = difference.get("by_sentence", {})
        rows.append(
            [
                row["system"],
                *([len(row["runs"])] if several else []),
                *(shown(row["scores"].get(name)) for name in names),
                "baseline" if row["system"] == tables["baseline"] else apart(difference),
                p(by_sentence.get("p_bootstrap")),
                p(difference.get("p_seeds")),
                shown(row["validation"]) if tables["validation"] else "",
                "" if row["parameters"] is None else f"{row['parameters']:,}",
                shown(row["tokens_per_second"], digits=0),
                _time(row["seconds"]),
                shown(row["steps"], digits=0),
                *(_setting(row["settings"][name]) for name in tables["settings"]),
            ]
        )
    return [heads, *rows]


def _by_length(tables: Mapping[str, Any]) -> list[str]:
    """Of few sentences there is no interval, and nothing to say."""
    found, baseline = tables["by_length"], tables["baseline"]
    buckets = {bucket["name"]: bucket["sentences"] for of_system in found.values() for bucket in of_system}
    heads = ["system", *(f"{name} ({count})" for name, count in buckets.items())]
    rows = ([system, *(_of_length(bucket, system == baseline) for bucket in of)] for system, of in found.items())
    about = (
        "In source words, and how many sentences. Behind BLEU the difference to the baseline on these sentences, with "
        "its 95 % interval; the baseline has the interval of its own BLEU."
    )
    return [about, "", *table(filled([heads, *rows]))]


def _longer(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    counts = {one["than"]: one["sentences"] for of_system in found.values() for one in of_system}
    heads = ["system", *(f">{than} ({count})" for than, count in counts.items())]
    rows = ([system, *map(_with_interval, of_system)] for system, of_system in found.items())
    told = filled([heads, *rows])
    return [LONGER, "", *table(told)] if told and len(told[0]) > 1 else []


def _of_length(bucket: Mapping[str, Any], is_baseline: bool) -> str:
    if bucket["low"] is None:
        return ""
    if is_baseline:
        return f"{bucket['bleu']:.2f} [{bucket['low']:.1f}, {bucket['high']:.1f}]"
    if bucket.get("difference_low") is None:  # kept by earlier code
        return f"{bucket['bleu']:.2f}"
    return f"{bucket['bleu']:.2f} {_with_interval(bucket)}"


def _with_interval(told: Mapping[str, Any]) -> str:
    """Nothing, where too few sentences are there to tell how sure it is."""
    if told["difference_low"] is None:
        return ""
    return f"{signed(told['difference'])} [{signed(told['difference_low'])}, {signed(told['difference_high'])}]"


def apart(difference: Mapping[str, Any]) -> str:
    """In BLEU, with its interval where there are sentences enough."""
    if not difference:
        return ""
    low, high = (difference["by_sentence"][f"difference_{end}"] for end in ("low", "high"))
    return signed(difference["bleu"]) + ("" if low is None else f" [{signed(low)}, {signed(high)}]")


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def p(value: float | None) -> str:
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


def filled(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Without the columns in which nothing stands."""
    columns = [column for column in zip(*rows, strict=True) if any(cell != "" for cell in column[1:])]
    return list(zip(*columns, strict=True))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(value: Any) -> str:
    """Nothing of it is markup; a single * is none."""
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "\\`")
    text = text.replace("*", "\\*") if text.count("*") > 1 else text
    return f"**{text}**" if isinstance(value, Bold) else text
