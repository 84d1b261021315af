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

from nmt.whole import write_text

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
    def keep_until(self, step: int, *, validated: bool = True) -> None:
        """Goes on in the file there is, after this step, and after its validation or before it (which may have been
        written when the run was killed, and comes again); of an unfinished line nothing is kept."""
        if not self.path.is_file():
            return
        whole, _, _ = self.path.read_text(encoding="utf-8").rpartition("\n")
        rows = list(csv.DictReader(whole.splitlines()))
        self.columns = list(rows[0]) if rows else []
        last = step if validated else step - 1
        self._write_anew([row for row in rows if int(row["step"]) <= (last if _of_validation(row) else step)])

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        row = {"step": step, **metrics}
        new = [name for name in (*FIRST, *sorted(row)) if name in row and name not in self.columns]
        if not self.columns:
            self.columns = list(dict.fromkeys(new))
            self._write_anew([])
        elif new:
            rows = list(csv.DictReader(self.path.read_text(encoding="utf-8").splitlines()))
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
