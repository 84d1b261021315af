"""A comparison of runs, to look at in Python."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from nmt.config.schema import load_defaults
from nmt.errors import UserError
from nmt.report.comparison import Comparison, compare_runs
from nmt.system.files import to_path


def compare(
    folders: Sequence[str | os.PathLike[str]],
    *,
    test: str | None = None,
    evaluations: str = "all",
    baseline: str | None = None,
    resamples: int = 1000,
    together: int = 1,
) -> "ComparedRuns":
    """Compare evaluated runs, as compare.py does.

    Args:
        folders: Folders of runs, of sweeps, or folders that hold such folders.
        test: The test set; None: the one on which most runs were evaluated.
        evaluations: `all` of a run on the test set, or `own`: only the one with the run's own settings.
        baseline: The run or system with which the others are compared; None: the first run.
        resamples: Resamples of the test set, for intervals and p.
        together: Consecutive sentences that are drawn as one.
    """
    if isinstance(folders, str | os.PathLike):
        raise UserError("compare(): takes a list of folders. Fix: compare([folder])")
    given: dict[str, Any] = {"test": test, "evaluations": evaluations, "baseline": baseline}
    given |= {"resamples": resamples, "together": together}
    settings = cast(DictConfig, OmegaConf.merge(load_defaults("compare"), given))
    return ComparedRuns(compare_runs([str(folder) for folder in folders], settings))


class ComparedRuns:
    """Compared runs; `compare` makes them.

    Attributes:
        tables: All that compare.json holds.
    """

    def __init__(self, comparison: Comparison):
        self._comparison = comparison
        self.tables: dict[str, Any] = comparison.tables

    @property
    def leaderboard(self) -> Any:
        """A row for each system: its mean scores, their deviation over seeds, and its difference to the baseline.

        It is a DataFrame where pandas is installed, else a list of dictionaries.
        """
        rows = [_make_row(system) for system in self.tables["systems"]]
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows).set_index("system")

    def save(self, page: str | os.PathLike[str] = "compare.html") -> Path:
        """Write the page, and its tables beside it as Markdown and as JSON."""
        path = to_path(page)
        self._comparison.write(path)
        return path


def _make_row(system: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"system": system["system"], "runs": len(system["runs"])}
    for name, summary in system["scores"].items():
        row |= {name: summary["mean"], f"{name}_deviation": summary.get("deviation")} if summary else {}
    if difference := system["difference"]:
        row |= {"bleu_difference": difference["bleu"], "p_seeds": difference["p_seeds"]}
        row |= {name: value for name, value in difference["by_sentence"].items() if name != "difference"}
    return row
