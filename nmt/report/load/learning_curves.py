"""Read learning curves from a run's metrics.csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_high
from typing import Any, NamedTuple

from nmt.report.load.run_folder import RunFolder
from nmt.runs.folder import METRICS, parse_metrics
from nmt.system.safe_files import UnreadableError, inside, read_or_note, read_text

MAX_POINTS = 300  # of a curve
CURVES = (  # charts, and the columns they show
    ("loss", "train/loss"), ("loss", "valid/loss"), ("perplexity", "valid/perplexity"), ("bleu", "valid/bleu")
)  # fmt: skip
SPEED = "train/tokens_per_second"


class Curves(NamedTuple):
    """The learning curves of a run, and its speed."""

    series: dict[str, dict[str, list[list[float]]]]  # loss, perplexity, bleu: column: steps and values
    speed: float | None  # target words a second, the median
    notes: tuple[str, ...] = ()


def load_curves(run: RunFolder) -> Curves:
    """Read the curves of a run; if metrics.csv is damaged, return none and a note."""
    nothing = Curves({}, None)
    curves, notes = read_or_note(lambda: read_curves(inside(run.training, METRICS)), "no learning curves", nothing)
    return curves._replace(notes=notes if run.trained else ())


def read_curves(path: Path) -> Curves:
    """Read a metrics.csv; raise UnreadableError if it is damaged."""
    try:
        rows = parse_metrics(read_text(path, path.name))
    except csv.Error as error:
        raise UnreadableError(f"metrics.csv is not a table ({error})") from None
    if not rows or "step" not in rows[0]:
        raise UnreadableError("metrics.csv holds no steps")
    series: dict[str, dict[str, list[list[float]]]] = {}
    for name, column in CURVES:
        if curve := _read_column(rows, column):
            series.setdefault(name, {})[column] = thin_out(curve)
    speeds = _read_column(rows, SPEED)
    return Curves(series, median_high(speeds[1]) if speeds else None)


def _read_column(rows: Sequence[Mapping[str, Any]], column: str) -> list[list[float]]:
    """Return the steps and values of a column; a column has values in some of the rows."""
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


def thin_out(points: list[list[float]]) -> list[list[float]]:
    """Return at most MAX_POINTS points of a curve, the first and the last among them."""
    count = len(points[0])
    if count <= MAX_POINTS:
        return points
    kept = [round(place * (count - 1) / (MAX_POINTS - 1)) for place in range(MAX_POINTS)]
    return [[values[place] for place in kept] for values in points]
