"""Check the folder of a run or sweep before Hydra writes to it, and remove it if the command is refused.

Hydra makes the folder before it calls the project, so a Hydra callback notes which folders are missing by then.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nmt.config.explain import TRACEBACK
from nmt.errors import make_printable
from nmt.runs.folder import CHECKPOINTS, COMPOSITION, LOCK, SUMMARY, SWEEP
from nmt.runs.job import IS_JOB
from nmt.system.safe_files import UnreadableError, check_regular, inside, read_json

RUN_FILES = (COMPOSITION, f"{CHECKPOINTS}/{COMPOSITION}", LOCK, SUMMARY, "train.log", "output.log")
SWEEP_FILES = ("multirun.yaml", SWEEP, "table.json", "table.md")
SUBMISSIONS = Path(".submitit")  # a job that SLURM has taken has a folder in it, with its log
new_folders: list[Path] = []  # the run's or sweep's, and those above it


class NoteNewFolders(Callback):
    """Note which folders Hydra is about to make, and check its files; conf/config.yaml names this class."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Note and check the folder of a run."""
        _note(config.hydra.run.dir)
        _refuse_links_and_pipes("hydra.run.dir", Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Note and check the folder of a sweep."""
        _note(config.hydra.sweep.dir)
        _refuse_links_and_pipes("hydra.sweep.dir", Path(config.hydra.sweep.dir))


def _note(path: str) -> None:
    folder = Path(path).absolute()
    new_folders[:] = [place for place in (folder, *folder.parents) if not place.exists()]


def _refuse_links_and_pipes(key: str, folder: Path) -> None:
    """Refuse links out of the folder, by which somebody else's run could have any file overwritten, and pipes.

    Its subfolders may be links, except .hydra, because checkpoints are often kept on another disk.
    """
    if Path.cwd().is_relative_to(folder.resolve()):
        return  # training refuses such a folder
    for place in (folder, folder / CHECKPOINTS):
        files = [path for path in place.glob("*") if not path.is_dir()]
        for path in (place / COMPOSITION, *place.glob(f"{COMPOSITION}/*"), *files):
            try:
                inside(place, path.relative_to(place))
                check_regular(path)
            except (UnreadableError, OSError) as error:  # exits, because Hydra turns errors of callbacks into warnings
                sys.exit(make_printable(f"error: {key}={place}: {error}"))


def remove_new_folders() -> None:
    """Remove the folders that this command made, if nothing was trained in them."""
    if IS_JOB in os.environ or not new_folders:  # because a sweep or a run reads the summary of its job
        return
    folder, *parents = new_folders
    if _is_refused(folder):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # because another command may have written to them
            for parent in parents:
                parent.rmdir()


def _is_refused(folder: Path) -> bool:
    """Return whether a run, or every job of a sweep, failed before its training for a reason that was explained."""
    jobs = read_json(folder / SWEEP)["jobs"] if (folder / SWEEP).is_file() else []
    if any(job["status"] != "failed" or TRACEBACK in job["error"] for job in jobs):
        return False
    places = [Path(job["folder"]) for job in jobs] or [Path()]
    written_first = [*map(Path, SWEEP_FILES), *(place / name for place in places for name in RUN_FILES)]
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    return all(file.parent == SUBMISSIONS or any(map(file.is_relative_to, written_first)) for file in files)
