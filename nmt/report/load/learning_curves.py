"""Learning curves, from a run's metrics.csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.report.load.safe_files import UnreadableError, read_text
from nmt.runs.folder import rows_of

POINTS = 300  # of a curve, at most
CURVES = {"loss": ("train/loss", "valid/loss"), "perplexity": ("valid/perplexity",), "bleu": ("valid/bleu",)}
SPEED = "train/tokens_per_second"


class Curves(NamedTuple):
    series: dict[str, dict[str, list[list[float]]]]  # loss, perplexity, bleu: column: steps and values
    speed: float | None  # target words a second, the median


def read_curves(path: Path) -> Curves:
    try:
        rows = rows_of(read_text(path, path.name))
    except csv.Error as error:
        raise UnreadableError(f"metrics.csv is not a table ({error})") from None
    if not rows or "step" not in rows[0]:
        raise UnreadableError("metrics.csv holds no steps")
    found = {
        name: {column: points for column in columns if (points := _points(rows, column))}
        for name, columns in CURVES.items()
    }
    speeds = sorted(values[1]) if (values := _points(rows, SPEED)) else []
    series = {name: {column: thinned(points) for column, points in of.items()} for name, of in found.items() if of}
    return Curves(series, speeds[len(speeds) // 2] if speeds else None)


def _points(rows: Sequence[Mapping[str, Any]], column: str) -> list[list[float]]:
    """Rows are sparse: a column has its values in some of them."""
    steps, values = [], []
    for number, row in enumerate(rows, start=2):
        if row.get(column):
            try:
                step, value = float(row["step"]), float(row[column])
            except (TypeError, ValueError):
                raise UnreadableError(f"metrics.csv, line {number}: {column} is not a number") from None
            if math.isfinite(step) and math.isfinite(value):
                steps.append(step)
                values.append(float(f"{value:.5g}"))
    return [steps, values] if steps else []


def thinned(points: list[list[float]]) -> list[list[float]]:
    """Few enough to be drawn; the last stays."""
    count = len(points[0])
    if count <= POINTS:
        return points
    kept = sorted({round(place * (count - 1) / (POINTS - 1)) for place in range(POINTS)})
    return [[values[place] for place in kept] for values in points]
