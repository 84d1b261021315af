"""Write the tables of a comparison as Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nmt.report.compare.mean_std import format_mean
from nmt.report.render.table import Table, escape_markdown

FIRST = ("bleu", "chrf", "ter", "perplexity", "aer")  # scores of the first table; all others follow in a second
NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "aer": "AER", "saer": "SAER", "comet": "COMET"}
ADEQUACY = (
    "For each 100 words of the (first) reference, in words as BLEU counts them; less is better. Words too often lower "
    "the precision of single words, words left out lower their recall. Synonyms count too, and a worse translation has "
    "more of both. Repetition is closer to what coverage should prevent."
)
BY_LENGTH = (
    "Lengths are in source words; in brackets the number of sentences. BLEU is followed by the difference to the "
    "baseline on these sentences, with its 95 % interval. The baseline has the interval of its own BLEU."
)
LENGTHS = (
    "The mean length of the translations, in words as BLEU counts them; in brackets the ratio to the length of the "
    "references. Translations that are too short leave words out."
)
LONGER_THAN = (
    "BLEU of all sentences with more source words than this (in brackets the number of sentences), with the difference "
    "to the baseline as above."
)
LONGER = (
    "The gain in BLEU over the baseline on sentences with more source words than this, minus the gain on all others. "
    "In round brackets the number of longer sentences, in square ones the 95 % interval over sentences."
)
ALIGNMENT = (
    "Attention when the model is given the references, in per cent; less is better. Each p is uncorrected. SAER uses "
    "the weights themselves, so it changes with their sharpness and with their sum."
)


def render_comparison(tables: Mapping[str, Any]) -> str:
    """Return compare.md."""
    return f"# Compared on {escape_markdown(tables['test'])}\n\n{render_sections(tables, level=2)}"


def render_sections(tables: Mapping[str, Any], level: int) -> str:
    """Return all tables of a comparison, under headings of this level."""
    lines = [_introduce(tables), "", *_make_leaderboard(tables).to_markdown()]
    for heading, section in _render_each_section(tables):
        lines += ["", f"{'#' * level} {heading}", "", *section]
    return "\n".join(lines) + "\n"


def _introduce(tables: Mapping[str, Any]) -> str:
    over_seeds, together, by_seeds = tables["spread_over_seeds"], tables.get("together", 1), ""
    if over_seeds:
        by_seeds = (
            " p over seeds is by Student's t with the pooled deviation of all systems "
            f"({over_seeds['deviation']:.2f} BLEU, {over_seeds['degrees']} degrees of freedom), paired for equal runs."
        )
    in_blocks = f", {together} sentences at a time" if together > 1 else ""
    return (
        f"{tables['sentences']} sentences; ± is the standard deviation over seeds. Differences are in BLEU, to "
        f"{escape_markdown(tables['baseline'])}, with 95 % intervals over sentences. Each p is two-sided and not "
        f"corrected for the number of comparisons. p over sentences is by paired bootstrap ({tables['resamples']} "
        f"resamples{in_blocks}, mean BLEU over seeds).{by_seeds} sacrebleu: {escape_markdown(tables['signature'])}"
    )


def _render_each_section(tables: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the heading and the lines of each section that has content."""
    adequacy, aligned = tables["adequacy"], tables.get("alignment", {}).get(tables["baseline"], {})
    tested = adequacy[tables["baseline"]]
    if (others := _make_other_scores(tables, skipped=(*FIRST, *tested, *aligned))).columns[1:]:
        yield "Other scores", others.to_markdown()
    format_bleu = partial(_format_bucket, tables["baseline"])
    yield "BLEU by source length", [BY_LENGTH, "", *_make_buckets(tables["by_length"], format_bleu).to_markdown()]
    yield "Length by source length", [LENGTHS, "", *_make_buckets(tables["by_length"], _format_length).to_markdown()]
    if longer_than := tables.get("longer_than"):  # older tables have none
        yield "BLEU of longer sentences", [LONGER_THAN, "", *_make_buckets(longer_than, format_bleu).to_markdown()]
    longer = _make_buckets(tables.get("longer", {}), lambda _, gain: _format_interval(gain))  # older tables have none
    if len(longer.columns) > 1:
        yield "Gain on longer sentences", [LONGER, "", *longer.to_markdown()]
    rates = _make_rates(adequacy, tables["baseline"], list(tested))
    yield "Over- and under-translation", [ADEQUACY, "", *rates.to_markdown()]
    if aligned:
        yield "Alignment error", [render_alignment_error(tables)]
    for heading, key, column in (("Not compared", "not_compared", "reason"), ("Notes", "notes", "note")):
        if tables[key]:
            rows = [[entry["run"], entry[column]] for entry in tables[key]]
            yield heading, Table(["run", column], rows).to_markdown()


def _make_leaderboard(tables: Mapping[str, Any]) -> Table:
    measured = {score["name"] for score in tables["scores"]}
    names = [name for name in FIRST if name in measured]
    columns = ["system", "n", *map(format_score_name, names), "Δ BLEU", "p (sentences)", "p (seeds)"]
    columns += [tables["validation"] or "", "parameters", "tokens/s", "time", "steps", *tables["settings"]]
    has_seeds = any(len(row["runs"]) > 1 for row in tables["systems"])
    rows = []
    for row in tables["systems"]:
        difference = row["difference"] or {}
        rows.append(
            [
                row["system"],
                len(row["runs"]) if has_seeds else "",
                *(format_mean(row["scores"].get(name)) for name in names),
                "baseline" if row["system"] == tables["baseline"] else format_difference(difference),
                format_p(difference.get("by_sentence", {}).get("p_bootstrap")),
                format_p(difference.get("p_seeds")),
                format_mean(row["validation"]) if tables["validation"] else "",
                "" if row["parameters"] is None else f"{row['parameters']:,}",
                format_mean(row["tokens_per_second"], digits=0),
                "" if row["seconds"] is None else format_duration(row["seconds"]["mean"]),
                format_mean(row["steps"], digits=0),
                *(_format_setting(row["settings"][name]) for name in tables["settings"]),
            ]
        )
    return Table(columns, rows).drop_empty_columns()


def _make_other_scores(tables: Mapping[str, Any], skipped: Sequence[str]) -> Table:
    systems = tables["systems"]
    names = [score["name"] for score in tables["scores"] if score["name"] not in skipped]
    cells = {name: [format_mean(row["scores"].get(name)) for row in systems] for name in names}
    if cells.get("bleu_lowercase") == [format_mean(row["scores"].get("bleu")) for row in systems]:
        del cells["bleu_lowercase"]  # the text is lowercase, so it is BLEU again
        cells.pop("bleu_13a", None)  # and cased BLEU has no meaning
    rows = list(zip((row["system"] for row in systems), *cells.values(), strict=True))
    return Table(["system", *map(format_score_name, cells)], rows).drop_empty_columns()


def _make_buckets(by_system: Mapping[str, Sequence[Mapping[str, Any]]], format_cell: Callable[..., str]) -> Table:
    """Return a row for each system; each head is a bucket's name, with its number of sentences."""
    buckets = [bucket for of_system in by_system.values() for bucket in of_system]
    counts = {bucket.get("name") or f">{bucket['than']}": bucket["sentences"] for bucket in buckets}
    rows = [[system, *(format_cell(system, bucket) for bucket in of_system)] for system, of_system in by_system.items()]
    return Table(["system", *(f"{name} ({count})" for name, count in counts.items())], rows).drop_empty_columns()


def _format_length(_: str, bucket: Mapping[str, Any]) -> str:
    return f"{bucket['words']:.1f} ({bucket['length_ratio']:.2f})"


def _format_bucket(baseline: str, system: str, bucket: Mapping[str, Any]) -> str:
    if bucket["low"] is None:  # too few sentences
        return ""
    if system == baseline:
        return f"{bucket['bleu']:.2f} [{bucket['low']:.1f}, {bucket['high']:.1f}]"
    return f"{bucket['bleu']:.2f} {_format_interval(bucket)}".rstrip()


def _format_interval(difference: Mapping[str, Any]) -> str:
    """Write a difference with its interval; nothing if there are too few sentences for an interval."""
    if difference.get("difference_low") is None:  # older tables have none
        return ""
    low, high = (format_signed(difference[f"difference_{end}"]) for end in ("low", "high"))
    return f"{format_signed(difference['difference'])} [{low}, {high}]"


def render_alignment_error(tables: Mapping[str, Any]) -> str:
    """Return the table of alignment errors, the smallest error first."""
    rates, baseline = tables["alignment"], tables["baseline"]
    if not rates:
        return "Not all systems were compared with the same alignments made by hand."
    measures = list(rates[baseline])
    best_first = dict(sorted(rates.items(), key=lambda of_system: of_system[1][measures[0]]["value"]))
    return "\n".join([ALIGNMENT, "", *_make_rates(best_first, baseline, measures).to_markdown()])


def _make_rates(rates: Mapping[str, Any], baseline: str, measures: Sequence[str]) -> Table:
    columns = ["system"]
    for measure in measures:
        columns += [format_score_name(measure), "Δ", "p (sentences)", "p (seeds)"]
    rows = []
    for system, of_system in rates.items():
        cells = [system]
        for rate in (of_system[measure] for measure in measures):
            tests = [format_signed(rate["difference"]), format_p(rate["p"]), format_p(rate["p_seeds"])]
            cells += [f"{rate['value']:.2f}", *(["baseline", "", ""] if system == baseline else tests)]
        rows.append(cells)
    return Table(columns, rows).drop_empty_columns()


def format_difference(difference: Mapping[str, Any]) -> str:
    """Write a difference in BLEU, with its interval if there are enough sentences."""
    if not difference:
        return ""
    bleu = difference["bleu"]
    return _format_interval(difference["by_sentence"] | {"difference": bleu}) or format_signed(bleu)


def format_signed(value: float) -> str:
    """Write a number with its sign: +0.50, −0.50."""
    return f"{value:+.2f}".replace("-", "−")


def format_p(value: float | None) -> str:
    """Write a p, which is at least 1 / (n + 1) with n resamples."""
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def format_duration(seconds: float) -> str:
    """Write hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _format_setting(value: Any) -> str:
    return "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def format_score_name(name: str) -> str:
    """Write a score's name as usual: aer → AER."""
    return NAMES.get(name, name.replace("_", " "))
