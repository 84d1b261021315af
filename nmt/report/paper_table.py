"""A table of a paper, our figures beside the paper's; written anew whenever a job of its sweep ends.

Runs that differ in nothing but the seed are one row: mean ± standard deviation of n.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from nmt.report.reading import UnreadableError, read_json
from nmt.run import write_json, write_text


class Entry(NamedTuple):
    """One run of a row."""

    paper: Mapping[str, Any]  # of its recipe: rows, figures, departures
    seed: int
    folder: Path
    status: str


def write_table(folder: Path, tabulated: Mapping[str, Any], entries: Sequence[Entry]) -> None:
    """`table.md` and `table.json` in the sweep's folder."""
    rows: dict[str, list[Entry]] = {}
    for entry in entries:
        rows.setdefault(entry.paper["rows"][tabulated["table"]], []).append(entry)
    table = {
        "title": tabulated["title"],
        "rows": [_row(name, runs) for name, runs in rows.items()],
        "departures": _departures(entries),
    }
    write_json(folder / "table.json", table)
    write_text(folder / "table.md", markdown(table))


def _row(name: str, runs: Sequence[Entry]) -> dict[str, Any]:
    scored = [scores for run in runs if run.status == "completed" and (scores := _scores(run.folder))]
    return {
        "row": name,
        "runs": [{"folder": run.folder.name, "seed": run.seed, "status": run.status} for run in runs],
        "n": len(scored),
        "bleu": _spread([scores["scores"]["bleu"]["score"] for scores in scored]),
        "perplexity": _spread([scores["scores"]["perplexity"] for scores in scored]),
        "tests": sorted({scores["test"] for scores in scored}),
        "signatures": sorted({scores["scores"]["bleu"]["signature"] for scores in scored}),
        "paper": runs[0].paper.get("figures", {}),
    }


def _scores(folder: Path) -> dict[str, Any] | None:
    """None too where the file is damaged: a row lacks it, the sweep goes on."""
    found = sorted(folder.glob("*/scores.json"))
    try:
        return read_json(found[0]) if found else None
    except UnreadableError:
        return None


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"mean": mean(values)} | ({"deviation": stdev(values)} if len(values) > 1 else {})


def _departures(entries: Sequence[Entry]) -> list[str]:
    """What stands between these runs and the paper's, each said once."""
    said = (item for entry in entries for item in entry.paper.get("departures", {}).items())
    return list(dict.fromkeys(f"{about}: {text}" for about, text in said))


def markdown(table: Mapping[str, Any]) -> str:
    lines = [
        f"# {table['title']}",
        "",
        "| system | BLEU | perplexity | n | the paper's | |",
        "|---|---|---|---|---|---|",
    ]
    for row in table["rows"]:
        states = ", ".join(dict.fromkeys(run["status"] for run in row["runs"] if run["status"] != "completed"))
        cells = (
            row["row"],
            _shown(row["bleu"]),
            _shown(row["perplexity"]),
            row["n"] or "",
            _paper(row["paper"]),
            states,
        )
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    tests = sorted({test for row in table["rows"] for test in row["tests"]})
    signatures = sorted({signature for row in table["rows"] for signature in row["signatures"]})
    lines += ["", f"Ours: {', '.join(tests) or '–'}; sacrebleu {'; '.join(signatures) or '–'}."]
    lines += ["The paper's figures are of its own data: only how rows compare can be compared.", ""]
    lines += ["Departures from the paper:", "", *(f"- {text}" for text in table["departures"])]
    return "\n".join(lines) + "\n"


def _shown(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return ""
    deviation = f" ± {spread['deviation']:.2f}" if "deviation" in spread else ""
    return f"{spread['mean']:.2f}{deviation}"


def _paper(figures: Mapping[str, Mapping[str, float]]) -> str:
    return "; ".join(
        f"{test} " + " ".join(f"{name} {value}" for name, value in of.items()) for test, of in figures.items()
    )
