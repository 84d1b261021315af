"""metrics.csv: a row whenever something is logged, on the disk at once, and without gaps where a run is gone on with.

Lightning's own logger begins the file anew then, and keeps rows back.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from nmt.runs.folder import read_metrics
from nmt.system.files import write_text

FIRST = ("step", "epoch")


class MetricsFile(Logger):
    """Columns come as they are logged first; a row has values in some of them."""

    def __init__(self, path: str):
        super().__init__()
        self.path = Path(path)
        self.columns: list[str] = []  # none: nothing is written yet

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def experiment(self) -> "MetricsFile":
        """Where Lightning's loggers have what they write to."""
        return self

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """.hydra/config.yaml has them."""

    @rank_zero_only
    def keep_until(self, step: int, *, validations: int | None = None) -> None:
        """Goes on in the file there is, after this step and so many validations: one may have been written when the run
        was killed, and comes again."""
        rows = read_metrics(self.path)
        self.columns = list(rows[0]) if rows else []
        found = [number for number, row in enumerate(rows) if _of_validation(row)]
        again = set() if validations is None else set(found[validations:])
        self._write_anew([row for number, row in enumerate(rows) if int(row["step"]) <= step and number not in again])

    def validations(self) -> int:
        return sum(map(_of_validation, read_metrics(self.path)))

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        row = {"step": step, **metrics}
        new = [name for name in (*FIRST, *sorted(row)) if name in row and name not in self.columns]
        if not self.columns:
            self.columns = list(dict.fromkeys(new))
            self._write_anew([])
        elif new:
            rows = read_metrics(self.path)
            self.columns += dict.fromkeys(new)
            self._write_anew(rows)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._as_text([row]))

    def _write_anew(self, rows: list[Mapping[str, Any]]) -> None:
        if self.columns:
            write_text(self.path, self._as_text([dict(zip(self.columns, self.columns, strict=True)), *rows]))

    def _as_text(self, rows: list[Mapping[str, Any]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self.columns, restval="", lineterminator="\n").writerows(rows)
        return text.getvalue()


def _of_validation(row: Mapping[str, Any]) -> bool:
    return any(value for name, value in row.items() if name.startswith("valid/"))
