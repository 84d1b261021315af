"""Name runs: a job of a sweep by its overrides, any other run by its folder."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from nmt.config.diff import TEST, WITHOUT_EFFECT, is_within, override_key

NOT_OF_THE_SYSTEM = (  # settings that do not make another system, as the seeds do not
    *WITHOUT_EFFECT, TEST, "data.dir", "data.tests", "callbacks.checkpoint.dirpath",
    "trainer.default_root_dir", "search.seed",
)  # fmt: skip


def name_runs(paths: Sequence[Path], overrides: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each run.

    A job of a sweep is named by the overrides that the other jobs do not share. Where this is the seed alone, it is
    named by all its overrides. Where two names are the same, both runs are named by their folders.
    """
    by_folder = shorten_paths(paths)
    jobs = [
        select_training_overrides(line) if is_job(path) else [] for path, line in zip(paths, overrides, strict=True)
    ]
    given = [set(job) for job in jobs if job]
    shared = set.intersection(*given) if len(given) > 1 else set()
    names = []
    for name, job in zip(by_folder, jobs, strict=True):
        distinct = " ".join(override for override in job if override not in shared)
        names.append(distinct if remove_seed(distinct) else " ".join(job) or name)
    return [name if names.count(name) == 1 else path for name, path in zip(names, by_folder, strict=True)]


def is_job(folder: Path) -> bool:
    """Return True for the folder of a sweep's job, which has overrides in its name."""
    return "=" in folder.name


def shorten_paths(folders: Sequence[str | Path]) -> list[str]:
    """Return each path without the folders that all of them lie in."""
    absolute = [Path(os.path.abspath(folder)) for folder in folders]
    shared = os.path.commonpath([path.parent for path in absolute]) if absolute else ""
    return [path.relative_to(shared).as_posix() for path in absolute]


def select_training_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that decide what is trained."""
    return [override for override in overrides if not is_within(override_key(override), NOT_OF_THE_SYSTEM)]


def remove_seed(name: str) -> str:
    """Return the name of a run without its seed: dot_seed1 → dot."""
    return re.sub(r"(^|[\s,/_-])seed[=_-]?\d+", "", name).strip(" ,/_-")
