"""Write the table of a paper with our results beside the paper's, again whenever a job of its sweep ends.

Runs that differ in the seed alone are one row: mean ± standard deviation. If a sweep tries settings that are not the
table's, each of them is a row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.diff import SEEDS, WITHOUT_EFFECT, is_within, override_key
from nmt.errors import ConfigurationError
from nmt.report.compare.mean_std import format_mean, mean_and_deviation
from nmt.report.load.run_folder import read_run, read_settings
from nmt.report.load.safe_files import UnreadableError, read_json
from nmt.report.render.markdown import format_score_name
from nmt.report.render.table import Table
from nmt.runs.folder import SCORES
from nmt.system.files import write_json, write_text

TABLE = "table.json"  # in the folder of a sweep
ALWAYS = ("bleu", "perplexity")  # scores that are shown even if the paper has none

Figures = Mapping[str, Mapping[str, float | str]]  # of a paper: by test set and score


class Entry(NamedTuple):
    """One run of a row."""

    paper: Mapping[str, Any]  # of its experiment: rows, figures, departures
    seed: int
    folder: Path
    status: str
    overrides: Sequence[str] = ()

    @property
    def settings(self) -> list[str]:
        """The overrides of its sweep, except the row, the seed and those without effect on the weights."""
        known = ("experiment", *SEEDS, *WITHOUT_EFFECT)
        return [override for override in self.overrides if not is_within(override_key(override), known)]


def write_table(folder: Path, tabulated: Mapping[str, Any], entries: Sequence[Entry]) -> None:
    """Write table.md and table.json into the folder of a sweep."""
    common = set.intersection(*(set(entry.settings) for entry in entries))
    rows: dict[str, list[Entry]] = {}
    for entry in entries:
        different = sorted(set(entry.settings) - common)
        rows.setdefault(", ".join([_find_row(entry, tabulated), *different]), []).append(entry)
    scores = list(dict.fromkeys([*ALWAYS, *_list_scores(entry.paper.get("figures", {}) for entry in entries)]))
    departures = [
        f"{subject}: {text}" for entry in entries for subject, text in entry.paper.get("departures", {}).items()
    ]
    content = {
        "title": tabulated["title"],
        "scores": scores,
        "settings": sorted(common),
        "rows": [_make_row(name, runs, scores) for name, runs in rows.items()],
        "departures": list(dict.fromkeys(departures)),
    }
    write_json(folder / TABLE, content)
    write_text(folder / "table.md", render_paper_table(content))


def _find_row(entry: Entry, tabulated: Mapping[str, Any]) -> str:
    rows = (entry.paper or {}).get("rows", {})
    if tabulated["table"] not in rows:
        raise ConfigurationError(
            f"{entry.folder.name} is not a row of {tabulated['title']}, whose rows are its experiments. "
            "Fix: leave out experiment="
        )
    return rows[tabulated["table"]]


def _list_scores(figures: Iterable[Figures]) -> list[str]:
    """Return the scores that the paper has."""
    return list(dict.fromkeys(score for of_row in figures for of_test in of_row.values() for score in of_test))


def _make_row(name: str, runs: Sequence[Entry], scores: Sequence[str]) -> dict[str, Any]:
    results = [result for run in runs if run.status == "completed" and (result := _read_results(run.folder))]
    return {
        "row": name,
        "runs": [{"folder": run.folder.name, "seed": run.seed, "status": run.status} for run in runs],
        "n": len(results),
        **{score: mean_and_deviation([result["scores"].get(score) for result in results]) for score in scores},
        "tests": sorted({result["test"] for result in results}),
        "signatures": sorted({result["signature"] for result in results}),
        "searched": [result["searched"] for result in results],
        "paper": runs[0].paper.get("figures", {}),
    }


def _read_results(folder: Path) -> dict[str, Any] | None:
    """Return the results on the test set that the run was trained for; None if they are damaged or of another text."""
    # imported here, because a launcher need not wait for torch and sacrebleu
    from nmt.report.load.evaluation import DEFAULTS, parse_scores, parse_search, parse_text_overrides

    test = read_settings(read_run(folder)).test
    try:
        stored = read_json(folder / test / SCORES) if test else None
        if stored is None or parse_text_overrides(stored, test):
            return None
        search = {key: value for key, value in parse_search(stored).items() if value != DEFAULTS.get(key, value)}
        searched = " ".join(f"{key.removeprefix('search.')}={value}" for key, value in search.items())
        scores, signatures = parse_scores(stored, test)
        return {"test": test, "scores": scores, "signature": signatures.get("bleu", ""), "searched": searched}
    except UnreadableError:
        return None


def render_paper_table(content: Mapping[str, Any], *, level: int = 1) -> str:
    """Return a table.json as Markdown, under a heading of this level."""
    tests = sorted({test for row in content["rows"] for test in row["tests"]})
    signatures = sorted({signature for row in content["rows"] for signature in row["signatures"]})
    searched = {search for row in content["rows"] for search in row.get("searched", [])}
    common = searched.pop() if len(searched) == 1 else ""  # said once below the table
    table = _make_table(content["rows"], content["scores"], common)
    lines = [f"{'#' * level} {content['title']}", "", *table.to_markdown()]
    ours = [", ".join(tests) or "–", *filter(None, [common]), f"sacrebleu {'; '.join(signatures) or '–'}"]
    lines += ["", f"Ours: {'; '.join(ours)}."]
    lines += ["The paper's figures are of its own data: only how rows compare can be compared.", ""]
    lines += ["Departures from the paper:", "", *(f"- {text}" for text in content["departures"])]
    if content.get("settings"):
        lines.append(f"- all rows: `{' '.join(content['settings'])}`")
    return "\n".join(lines) + "\n"


def _make_table(rows: Sequence[Mapping[str, Any]], scores: Sequence[str], common: str) -> Table:
    """Return the table, without the search that all rows share; a score of the paper takes two columns."""
    papers = _list_scores(row["paper"] for row in rows)
    columns = ["system"]
    for score in scores:
        columns += [format_score_name(score), *(["the paper's"] if score in papers else [])]
    cells = []
    for row in rows:
        figures = []
        for score in scores:
            figures += [format_mean(row[score]), *([_format_figures(row["paper"], score)] if score in papers else [])]
        states = dict.fromkeys(run["status"] for run in row["runs"] if run["status"] != "completed")
        remarks = ", ".join([*states, *_count_searches(row.get("searched", []), common)])
        cells.append([row["row"], *figures, row["n"] or "", remarks])
    return Table([*columns, "n", ""], cells)


def _count_searches(searched: Sequence[str], common: str) -> list[str]:
    """Return the searches that are neither the default nor common, with the number of runs if not all used it."""
    counts = Counter(search for search in searched if search not in ("", common))
    return [f"{how} ({count} of {len(searched)})" if count < len(searched) else how for how, count in counts.items()]


def _format_figures(figures: Figures, score: str) -> str:
    return "; ".join(f"{test} {of_test[score]}" for test, of_test in figures.items() if score in of_test)
