"""A table of a paper, our figures beside the paper's; written anew whenever a job of its sweep ends.

Runs that differ in nothing but the seed are one row: mean ± standard deviation of n. Where a sweep tries other settings
beside the table's, each is a row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.diff import OF_NO_WEIGHT, SEEDS, is_within, name_of
from nmt.errors import ConfigurationError
from nmt.report.compare.mean_std import shown, spread
from nmt.report.load.safe_files import UnreadableError, read_json
from nmt.report.render.markdown import table, words
from nmt.system.files import write_json, write_text

TABLE = "table.json"  # in the folder of a sweep
ALWAYS = ("bleu", "perplexity")  # whether the paper gives them or not


Figures = Mapping[str, Mapping[str, float | str]]  # of a paper: by its test sets and by score, called as in scores.json


class Entry(NamedTuple):
    """One run of a row."""

    paper: Mapping[str, Any]  # of its recipe: rows, figures, departures
    seed: int
    folder: Path
    status: str
    overrides: Sequence[str] = ()

    @property
    def settings(self) -> list[str]:
        """What its sweep chose besides the row and the seed."""
        told = ("experiment", *SEEDS, *OF_NO_WEIGHT)
        return [override for override in self.overrides if not is_within(name_of(override), told)]


class Scored(NamedTuple):
    test: str
    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    searched: str  # otherwise than score_test searches: beam=10


def write_table(folder: Path, tabulated: Mapping[str, Any], entries: Sequence[Entry]) -> None:
    """`table.md` and `table.json` in the sweep's folder."""
    common = set.intersection(*(set(entry.settings) for entry in entries))
    rows: dict[str, list[Entry]] = {}
    for entry in entries:
        apart = sorted(set(entry.settings) - common)
        rows.setdefault(", ".join([_row_of(entry, tabulated), *apart]), []).append(entry)
    scores = list(dict.fromkeys([*ALWAYS, *_given(entry.paper.get("figures", {}) for entry in entries)]))
    content = {
        "title": tabulated["title"],
        "scores": scores,
        "settings": sorted(common),
        "rows": [_row(name, runs, scores) for name, runs in rows.items()],
        "departures": _departures(entries),
    }
    write_json(folder / TABLE, content)
    write_text(folder / "table.md", markdown(content))


def _row_of(entry: Entry, tabulated: Mapping[str, Any]) -> str:
    rows = (entry.paper or {}).get("rows", {})
    if tabulated["table"] not in rows:
        raise ConfigurationError(
            f"{entry.folder.name} is no row of {tabulated['title']}: the table's rows are its experiments, leave out "
            "experiment="
        )
    return rows[tabulated["table"]]


def _given(figures: Iterable[Figures]) -> list[str]:
    """Scores that the paper gives."""
    return list(dict.fromkeys(score for of_row in figures for of_test in of_row.values() for score in of_test))


def _row(name: str, runs: Sequence[Entry], scores: Sequence[str]) -> dict[str, Any]:
    scored = [found for run in runs if run.status == "completed" and (found := _scored(run.folder))]
    return {
        "row": name,
        "runs": [{"folder": run.folder.name, "seed": run.seed, "status": run.status} for run in runs],
        "n": len(scored),
        **{score: spread([found.scores.get(score) for found in scored]) for score in scores},
        "tests": sorted({found.test for found in scored}),
        "signatures": sorted({found.signatures.get("bleu", "") for found in scored}),
        "searched": [found.searched for found in scored],
        "paper": runs[0].paper.get("figures", {}),
    }


def _scored(folder: Path) -> Scored | None:
    """On the run's own test set, whatever else it was evaluated on since. None too where scores of another text lie
    there, or the file is damaged: a row lacks it, the sweep goes on."""
    from nmt.report.load.evaluation import other_text, scores_of
    from nmt.report.load.run_folder import RunFolder  # and with it sacrebleu, for which no launcher need wait

    test = RunFolder(folder).own_test
    try:
        stored = read_json(folder / test / "scores.json") if test else None
        if stored is None or other_text(stored, test):
            return None
        return Scored(test, *scores_of(stored, test), _searched(stored))
    except UnreadableError:
        return None


def _searched(stored: Mapping[str, Any]) -> str:
    from nmt.report.compare.setting_differences import HOW
    from nmt.report.load.evaluation import searched

    others = {name: value for name, value in searched(stored).items() if value != HOW.get(name, value)}
    return " ".join(f"{name.removeprefix('search.')}={value}" for name, value in others.items())


def _departures(entries: Sequence[Entry]) -> list[str]:
    """What stands between these runs and the paper's, each said once."""
    said = (item for entry in entries for item in entry.paper.get("departures", {}).items())
    return list(dict.fromkeys(f"{about}: {text}" for about, text in said))


def markdown(content: Mapping[str, Any], *, level: int = 1) -> str:
    tests = sorted({test for row in content["rows"] for test in row["tests"]})
    signatures = sorted({signature for row in content["rows"] for signature in row["signatures"]})
    lines = [f"{'#' * level} {content['title']}", "", *table(_cells(content["rows"], content["scores"]))]
    lines += ["", f"Ours: {', '.join(tests) or '–'}; sacrebleu {'; '.join(signatures) or '–'}."]
    lines += ["The paper's figures are of its own data: only how rows compare can be compared.", ""]
    lines += ["Departures from the paper:", "", *(f"- {text}" for text in content["departures"])]
    if content.get("settings"):
        lines.append(f"- all rows: `{' '.join(content['settings'])}`")
    return "\n".join(lines) + "\n"


def _cells(rows: Sequence[Mapping[str, Any]], scores: Sequence[str]) -> list[list[Any]]:
    """A paper that gives a score has a column beside ours."""
    given = _given(row["paper"] for row in rows)
    heads = [[words(score), *(["the paper's"] if score in given else [])] for score in scores]
    cells = [["system", *chain(*heads), "n", ""]]
    for row in rows:
        figures = [[shown(row[name]), *([_paper(row["paper"], name)] if name in given else [])] for name in scores]
        states = dict.fromkeys(run["status"] for run in row["runs"] if run["status"] != "completed")
        about = ", ".join([*states, *_otherwise(row.get("searched", []))])
        cells.append([row["row"], *chain(*figures), row["n"] or "", about])
    return cells


def _otherwise(searched: Sequence[str]) -> list[str]:
    """How a row's runs were searched where not by the defaults, and how many where not all were."""
    counts = Counter(filter(None, searched))
    return [f"{how} ({count} of {len(searched)})" if count < len(searched) else how for how, count in counts.items()]


def _paper(figures: Figures, score: str) -> str:
    return "; ".join(f"{test} {of[score]}" for test, of in figures.items() if score in of)
