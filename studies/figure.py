"""Draw the leaderboard of a study as an SVG file: a point for each system, with its deviation over seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.report.load.run_names import remove_seed

LOWER_IS_BETTER = ("aer",)


def draw_figure(name: str, study: Mapping[str, Any], kept: Mapping[str, Any], folder: Path) -> Path | None:
    """Write NAME.svg and return its path; None where a study has nothing to draw."""
    tests = kept.get(name, {}).get("tests", {})
    if not tests:
        return None
    measure = "aer" if study.get("asks") == "alignment" else "bleu"
    points = {test: _points(tables, measure) for test, tables in tests.items()}
    path = folder / f"{name}.svg"
    _draw(points, measure, path)
    return path


def _points(tables: Mapping[str, Any], measure: str) -> dict[str, tuple[float, float]]:
    """Return the mean and the deviation of each system, the best last, which is drawn at the top."""
    points = {}
    for row in tables["systems"]:
        if measure == "bleu":
            score = row["scores"]["bleu"]
            points[remove_seed(row["system"])] = (score["mean"], score.get("deviation") or 0.0)
        elif row["system"] in tables["alignment"]:
            points[row["system"]] = (tables["alignment"][row["system"]][measure]["value"], 0.0)
    worst_first = sorted(points, key=lambda system: points[system][0], reverse=measure in LOWER_IS_BETTER)
    return {system: points[system] for system in worst_first}


def _draw(points: Mapping[str, Mapping[str, tuple[float, float]]], measure: str, path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.size": 9}  # equal figures make equal files
    with matplotlib.rc_context(settings):
        rows = max(map(len, points.values()))
        figure = Figure(figsize=(5.2 * len(points), 0.7 + 0.26 * rows), layout="constrained")
        for axes, (test, systems) in zip(
            figure.subplots(1, len(points), squeeze=False)[0], points.items(), strict=True
        ):
            means, deviations = zip(*systems.values(), strict=True)
            axes.errorbar(
                means, range(len(systems)), xerr=deviations, fmt="o", markersize=4, capsize=2, color="#3b6ea8"
            )
            axes.set_yticks(range(len(systems)), [_shorten(system) for system in systems])
            axes.set_title(f"{measure.upper()} on {test}", fontsize=9)
            axes.grid(axis="x", color="#d8d8d8", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _shorten(system: str, longest: int = 48) -> str:
    return system if len(system) <= longest else f"{system[: longest - 1]}…"
