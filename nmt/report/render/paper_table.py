"""Write the table of a paper with our results beside the paper's, again whenever a job of its sweep ends.

Runs that differ in the seed alone are one row: mean ± standard deviation. If a sweep tries settings that are not the
table's, each of them is a row. `tabulated` (conf/table) describes the paper's table:

    table, title    its name in `paper.rows` of the recipes, and its heading
    scores          its columns; without them, all scores that the paper has of its rows
    rows            its rows in the paper's order; without them, those of the sweep

A row is the name of a recipe's row, or {row: NAME, figures: {TEST: {SCORE: NUMBER}}} for a system that the sweep does
not train. With `output: FOLDER` such a row also has the scores of `evaluate.py … output=SWEEP/FOLDER`, for example of
an ensemble.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.diff import SEEDS, WITHOUT_EFFECT, is_within, override_key
from nmt.errors import ConfigurationError
from nmt.report.compare.mean_std import format_mean, mean_and_deviation
from nmt.report.load.run_folder import read_run, read_settings
from nmt.report.render.markdown import format_score_name
from nmt.report.render.table import Table
from nmt.runs.folder import SCORES, list_evaluations, strip_settings
from nmt.system.files import write_json, write_text
from nmt.system.safe_files import UnreadableError, inside, read_json

TABLE = "table.json"  # in the folder of a sweep
ALWAYS = ("bleu", "perplexity")  # scores that are shown even if the paper has none

Figures = Mapping[str, Mapping[str, float | str]]  # of a paper: by test set and score


class Entry(NamedTuple):
    """One run of the sweep."""

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


class Row(NamedTuple):
    """A row of the table: its runs, or the folder of an evaluation, or the paper's figures alone."""

    name: str
    figures: Figures
    runs: Sequence[Entry] = ()
    output: str = ""  # in the folder of the sweep


def write_table(folder: Path, tabulated: Mapping[str, Any], entries: Sequence[Entry]) -> None:
    """Write table.md and table.json into the folder of a sweep."""
    common = set.intersection(*(set(entry.settings) for entry in entries))
    rows = _list_rows(tabulated, entries, common)
    of_paper = tabulated.get("scores") or _list_scores(row.figures for row in rows)
    rows = [row._replace(figures=_select_scores(row.figures, of_paper)) for row in rows]
    scores = list(dict.fromkeys([*ALWAYS, *of_paper]))
    departures = [
        f"{subject}: {text}" for entry in entries for subject, text in entry.paper.get("departures", {}).items()
    ]
    content = {
        "title": tabulated["title"],
        "scores": scores,
        "settings": sorted(common),
        "rows": _make_rows(folder, rows, scores),
        "departures": list(dict.fromkeys(departures)),
    }
    write_json(folder / TABLE, content)
    write_text(folder / "table.md", render_paper_table(content))


def _list_rows(tabulated: Mapping[str, Any], entries: Sequence[Entry], common: set[str]) -> list[Row]:
    """Return the rows in the paper's order; other settings than the common ones make rows of their own."""
    runs: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        name = _find_row(entry, tabulated)
        different = sorted(set(entry.settings) - common)
        runs.setdefault(name, {}).setdefault(", ".join([name, *different]), []).append(entry)
    listed = tabulated.get("rows", [])
    rows = []
    for row in [*listed, *(name for name in runs if name not in listed)]:
        if isinstance(row, str):
            named = runs.get(row, {}).items()
            rows += [Row(name, of_row[0].paper.get("figures", {}), of_row) for name, of_row in named]
        else:
            rows.append(Row(row["row"], row.get("figures", {}), output=row.get("output", "")))
    return rows


def _find_row(entry: Entry, tabulated: Mapping[str, Any]) -> str:
    rows = entry.paper.get("rows", {})
    if tabulated["table"] not in rows:
        raise ConfigurationError(
            f"{entry.folder.name} is not a row of {tabulated['title']}, whose rows are its experiments. "
            "Fix: leave out experiment="
        )
    return rows[tabulated["table"]]


def _list_scores(figures: Iterable[Figures]) -> list[str]:
    """Return the scores that the paper has."""
    return list(dict.fromkeys(score for of_row in figures for of_test in of_row.values() for score in of_test))


def _select_scores(figures: Figures, scores: Sequence[str]) -> Figures:
    return {test: {name: of_test[name] for name in of_test if name in scores} for test, of_test in figures.items()}


def _make_rows(folder: Path, rows: Sequence[Row], scores: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows with their results; evaluations in `output` are of the test set that all runs have."""
    results = [_read_runs(row.runs) for row in rows]
    tests = {result["test"] for of_row in results for result in of_row}
    test = tests.pop() if len(tests) == 1 else None
    for row, of_row in zip(rows, results, strict=True):
        evaluations = list_evaluations(folder / row.output, test)[:1] if row.output and test else []
        of_row += filter(None, (_read_results(folder / row.output, evaluation) for evaluation in evaluations))
    return [_make_row(row, of_row, scores) for row, of_row in zip(rows, results, strict=True)]


def _make_row(row: Row, results: Sequence[Mapping[str, Any]], scores: Sequence[str]) -> dict[str, Any]:
    return {
        "row": row.name,
        "runs": [{"folder": run.folder.name, "seed": run.seed, "status": run.status} for run in row.runs],
        "output": row.output,
        "n": len(results),
        **{score: mean_and_deviation([result["scores"].get(score) for result in results]) for score in scores},
        "tests": sorted({result["test"] for result in results}),
        "signatures": sorted({result["signature"] for result in results}),
        "searched": [result["searched"] for result in results],
        "paper": row.figures,
    }


def _read_runs(runs: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the results of completed runs on the test set that they were trained for."""
    folders = [run.folder for run in runs if run.status == "completed"]
    results = (_read_results(folder, read_settings(read_run(folder)).test) for folder in folders)
    return [result for result in results if result]


def _read_results(folder: Path, evaluation: str | None) -> dict[str, Any] | None:
    """Return the results of an evaluation; None if they are damaged or of another text."""
    # imported here, because a launcher need not wait for torch and sacrebleu
    from nmt.evaluation.stored_evaluation import DEFAULTS, parse_scores, parse_search, parse_text_overrides

    try:
        stored = read_json(inside(folder, f"{evaluation}/{SCORES}")) if evaluation else None
        if stored is None or parse_text_overrides(stored, test := strip_settings(evaluation)):
            return None
        search = {key: value for key, value in parse_search(stored).items() if value != DEFAULTS.get(key, value)}
        searched = " ".join(f"{key.removeprefix('search.')}={value}" for key, value in search.items())
        scores, signatures = parse_scores(stored, test)
        scores = _separate_unknown(scores, stored.get("unknown"))
        return {"test": test, "scores": scores, "signature": signatures.get("bleu", ""), "searched": searched}
    except UnreadableError:
        return None


def _separate_unknown(scores: Mapping[str, float], unknown: str) -> Mapping[str, float]:
    """Return tokenised BLEU before unknown words were replaced, and after it, as two scores."""
    if unknown not in ("copy", "translate") or "bleu_tokenized" not in scores:
        return scores
    after = scores["bleu_tokenized"]  # the same as before, if there was nothing to replace
    return {**scores, "bleu_tokenized": scores.get("bleu_unknown_kept", after), "bleu_unknown_replaced": after}


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
    lines += ["The paper's figures are from other data: compare the order of rows, not the figures.", ""]
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
        states = list(dict.fromkeys(run["status"] for run in row["runs"] if run["status"] != "completed"))
        if row.get("output") and not row["n"]:
            states = [f"evaluate.py output=…/{row['output']}"]
        remarks = ", ".join([*states, *_count_searches(row.get("searched", []), common)])
        cells.append([row["row"], *figures, row["n"] or "", remarks])
    return Table([*columns, "n", ""], cells)


def _count_searches(searched: Sequence[str], common: str) -> list[str]:
    """Return the searches that are neither the default nor common, with the number of runs if not all used it."""
    counts = Counter(search for search in searched if search not in ("", common))
    return [f"{how} ({count} of {len(searched)})" if count < len(searched) else how for how, count in counts.items()]


def _format_figures(figures: Figures, score: str) -> str:
    return "; ".join(f"{test} {of_test[score]}" for test, of_test in figures.items() if score in of_test)
