"""metrics.csv: a row for whatever is logged, on the disk at once, and without gaps or repeats in a resumed run.

Lightning's own CSV logger starts the file again on resume, and keeps rows in memory.
"""

import csv
import io
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from nmt.errors import UserError
from nmt.runs.folder import read_metrics
from nmt.system.files import write_text

log = logging.getLogger(__name__)


class CsvLogger(Logger):
    """Log to metrics.csv; columns stand in the order in which they were first logged."""

    name = version = ""  # because the run's folder has both

    def __init__(self, path: str):
        self.path = Path(path)
        self.columns: list[str] = []  # none: the file is not written yet
        self.size = 0  # of the file, as this process wrote it

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Write nothing, because .hydra/config.yaml holds the settings."""

    @rank_zero_only
    def keep_until(self, step: int, *, validations: int | None = None, count: int = 0) -> None:
        """Drop the rows that a resumed run logs again: those after `step`, and all but the first `validations`.

        Of a damaged file, the rows that can be read are kept. A copy and a warning remain if fewer than `count` are.
        """
        rows = self._read()
        self.columns = list(rows[0]) if rows else []
        of_validations = [number for number, row in enumerate(rows) if _is_of_validation(row)]
        repeated = set() if validations is None else set(of_validations[validations:])
        kept = [row for number, row in enumerate(rows) if int(row["step"]) <= step and number not in repeated]
        if len(kept) < count:
            log.warning("%s: was damaged or removed, and %d of %d rows are lost", self.path, count - len(kept), count)
            copy = self.path.with_name(f"{self.path.name}.damaged")
            if self.path.exists() and not copy.exists():  # a run killed before its next checkpoint comes here again
                shutil.copyfile(self.path, copy)
                log.warning("the damaged file is kept as %s", copy)
        self._rewrite(kept)

    def count(self, step: int) -> dict[str, int]:
        """Return the numbers of all validations, and of the rows up to a step."""
        self._check_unchanged()
        rows = self._read()
        return {"validations": sum(map(_is_of_validation, rows)), "rows": sum(int(row["step"]) <= step for row in rows)}

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append a row; the file is rewritten where it needs a new column."""
        self._check_unchanged()
        row = {"step": step, **metrics}
        new = row.keys() - set(self.columns)
        if new:
            rows = self._read() if self.columns else []
            self.columns += sorted(new, key=lambda name: (name != "step", name != "epoch", name))
            self._rewrite(rows)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            self._writer(file).writerow(row)
        self.size = self.path.stat().st_size

    def _check_unchanged(self) -> None:
        """Refuse to go on where another program changed the file, because rows would be lost or out of order."""
        if self.columns and (self.path.stat().st_size if self.path.exists() else 0) != self.size:
            raise UserError(
                f"{self.path}: was changed or removed by another program, or by a second training in this folder. "
                "Fix: give the same command again once no other process trains there"
            )

    def _read(self) -> list[dict[str, str]]:
        """Return the rows that have a step and no more values than the table has columns."""
        return [row for row in read_metrics(self.path) if (row.get("step") or "").isdecimal() and None not in row]

    def _rewrite(self, rows: list[Mapping[str, Any]]) -> None:
        if self.columns:
            text = io.StringIO()
            self._writer(text).writeheader()
            self._writer(text).writerows(rows)
            write_text(self.path, text.getvalue())
            self.size = self.path.stat().st_size

    def _writer(self, file: IO[str]) -> csv.DictWriter:
        return csv.DictWriter(file, self.columns, restval="", lineterminator="\n")


def _is_of_validation(row: Mapping[str, Any]) -> bool:
    return any(value for name, value in row.items() if name.startswith("valid/"))
