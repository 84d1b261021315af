"""Draw the leaderboard of a study as an SVG file: a point for each system, with its deviation over seeds.

A second figure of a study shows what the systems cost: the time of training beside BLEU and repetition.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.report.load.run_names import remove_seed

COSTS = {"training, seconds": "seconds", "BLEU on {test}": "bleu", "repeated word pairs on {test}": "repeated_2grams"}
Points = Mapping[str, tuple[float, float]]  # the mean and the deviation of each system


def draw_figure(name: str, study: Mapping[str, Any], kept: Mapping[str, Any], folder: Path) -> Path | None:
    """Write NAME.svg and return its path; None where a study has fewer than two systems."""
    tests = kept.get(name, {}).get("tests", {})
    if max((len(tables["systems"]) for tables in tests.values()), default=0) < 2:
        return None
    measure = "aer" if study.get("asks") == "alignment" else "bleu"
    path = folder / f"{name}.svg"
    _draw({f"{measure.upper()} on {test}": _points(tables, measure) for test, tables in tests.items()}, path)
    return path


def draw_costs(name: str, tables: Mapping[str, Any], folder: Path) -> Path:
    """Write NAME_costs.svg and return its path: the fastest system at the top of each panel."""
    by_time = sorted(tables["systems"], key=lambda row: -row["seconds"]["mean"])
    panels = {
        title.format(test=tables["test"]): {
            remove_seed(row["system"]): _with_deviation((row | row["scores"])[measure]) for row in by_time
        }
        for title, measure in COSTS.items()
    }
    path = folder / f"{name}_costs.svg"
    _draw(panels, path)
    return path


def _points(tables: Mapping[str, Any], measure: str) -> Points:
    """Return the points of the systems, the best last, which is drawn at the top."""
    points = {
        remove_seed(row["system"]): _with_deviation(row["scores"][measure])
        for row in tables["systems"]
        if measure in row["scores"]
    }
    return dict(sorted(points.items(), key=lambda point: point[1][0], reverse=measure == "aer"))


def _with_deviation(score: Mapping[str, float]) -> tuple[float, float]:
    return score["mean"], score.get("deviation") or 0.0


def _draw(panels: Mapping[str, Points], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.size": 9}  # equal figures make equal files
    settings["font.sans-serif"] = ["DejaVu Sans"]  # alone, because the whole list would be written with each text
    with matplotlib.rc_context(settings):
        rows = max(map(len, panels.values()))
        figure = Figure(figsize=(5.2 * len(panels), 0.7 + 0.26 * rows), layout="constrained")
        row_of_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, systems) in zip(row_of_axes, panels.items(), strict=True):
            means, deviations = zip(*systems.values(), strict=True)
            axes.errorbar(
                means, range(len(systems)), xerr=deviations, fmt="o", markersize=4, capsize=2, color="#3b6ea8"
            )
            axes.set_yticks(range(len(systems)), [_shorten(system) for system in systems])
            axes.set_title(title, fontsize=9)
            axes.grid(axis="x", color="#d8d8d8", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"^ +", "", text, flags=re.M), encoding="utf-8")  # indentation is a tenth of the file


def _shorten(system: str, longest: int = 48) -> str:
    return system if len(system) <= longest else f"{system[: longest - 1]}…"
