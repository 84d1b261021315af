"""Save a view of a sweep in W&B: runs grouped over seeds, curves, parallel coordinates and alignments.

python -m nmt.report.wandb_workspace multirun/NAME ENTITY/PROJECT
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config.diff import SEEDS, override_key
from nmt.config.schema import list_choices
from nmt.errors import UserError, first_line, require_packages
from nmt.report.load.run_names import select_training_overrides
from nmt.runs.folder import SWEEP
from nmt.system.safe_files import UnreadableError, read_json

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Workspace

USAGE = "usage: python -m nmt.report.wandb_workspace multirun/NAME ENTITY/PROJECT"
CURVES = ("valid/bleu", "valid/perplexity", "valid/loss", "train/loss")
BEST = "valid/bleu.max"
RESULTS = (BEST, "valid/perplexity.min", "best_step", "parameters")
ALIGNMENTS = 3  # sentences whose alignments are shown


def find_swept_keys(sweep: Path) -> list[str]:
    """Return the keys of W&B's configuration in which the jobs of a sweep differ; a group's choice is in `choices`."""
    try:
        jobs = [select_training_overrides(job["overrides"]) for job in read_json(sweep / SWEEP)["jobs"]]
    except (UnreadableError, LookupError, TypeError) as error:
        raise UserError(f"{sweep}: has no readable {SWEEP}. Fix: name the folder of a sweep") from error
    shared = set.intersection(*map(set, jobs)) if jobs else set()
    keys = dict.fromkeys(override_key(override) for job in jobs for override in job if override not in shared)
    return [f"choices.{key}" if list_choices(key) else key for key in keys]


def build_workspace(sweep: str, keys: Sequence[str], entity: str, project: str) -> "Workspace":
    """Return the view of a sweep, without saving it; its runs have its name as their group, and differ in the keys."""
    from wandb_workspaces import workspaces
    from wandb_workspaces.reports import v2 as panels

    axes = [panels.ParallelCoordinatesPlotColumn(panels.Config(key)) for key in keys]
    axes += [panels.ParallelCoordinatesPlotColumn(panels.SummaryMetric(BEST))]
    curves = [panels.LinePlot(title=name, x="trainer/global_step", y=[name]) for name in CURVES]
    alignments = [f"valid/alignment_{number}" for number in range(ALIGNMENTS)]
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=f"Sweep {sweep}",
        sections=[
            workspaces.Section("Curves", panels=curves, is_open=True),
            workspaces.Section("Settings", panels=[panels.ParallelCoordinatesPlot(columns=axes)], is_open=True),
            workspaces.Section("Alignments", panels=[panels.MediaBrowser(media_keys=alignments)]),
        ],
        runset_settings=workspaces.RunsetSettings(
            filters=workspaces.And(workspaces.Metric("Group") == sweep),
            groupby=[workspaces.Config(key) for key in keys if key not in SEEDS],
            order=[workspaces.Ordering(workspaces.Summary(BEST), ascending=False)],
            pinned_columns=[*map(_column_of, keys), *(f"summary:{name}" for name in RESULTS)],
        ),
    )


def _column_of(key: str) -> str:
    """Return W&B's name of the column of a key in its configuration."""
    first, *rest = key.split(".")
    return f"config:{'.'.join([first, 'value', *rest])}"


def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    entity, _, project = arguments[1].partition("/") if len(arguments) == 2 else ("", "", "")
    if not (entity and project):
        sys.exit(USAGE)
    try:
        require_packages("wandb_workspace", "wandb_workspaces", extra="workspaces")
        sweep = Path(arguments[0]).absolute()
        workspace = build_workspace(sweep.name, find_swept_keys(sweep), entity, project)
        try:
            saved = workspace.save()
        except Exception as error:  # because W&B's errors have no common class
            raise UserError(f"W&B: {first_line(error)}. Fix: wandb login, and check ENTITY/PROJECT") from error
        print(saved.url)
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
