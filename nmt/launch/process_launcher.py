"""Hydra's launcher of conf/hydra/launcher/processes.yaml: each job of a sweep is a process."""

import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from nmt.config.diff import find_changes
from nmt.config.installation import name_command
from nmt.config.schema import check_composed_config, check_overrides
from nmt.errors import ConfigurationError, UserError
from nmt.launch.sweep import Sweep
from nmt.report.render.paper_table import Entry, write_table
from nmt.runs.folder import CHECKPOINTS, CONFIG
from nmt.runs.job import IS_JOB, Job, config_dirs
from nmt.runs.scoring import read_scoring
from nmt.system.safe_files import UnreadableError, read_yaml

log = logging.getLogger(__name__)


class ProcessLauncher(Launcher):
    """Run the jobs of a sweep, `n_jobs` at once."""

    def __init__(self, *, n_jobs: int):
        if n_jobs < 1:
            raise ConfigurationError(f"hydra.launcher.n_jobs={n_jobs}: must be at least 1")
        self.n_jobs = n_jobs
        self.sweep: Sweep | None = None  # a sweeper that suggests settings launches again and again
        self.configs: list[DictConfig] = []  # of all jobs so far

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives a launcher."""
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch of jobs; settings that a sweeper suggests twice are run once."""
        if IS_JOB in os.environ:
            raise ConfigurationError("a job of a sweep, or a pretraining stage, cannot be a sweep itself")
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        distinct = list(dict.fromkeys(map(tuple, job_overrides))) if self._suggests_settings else job_overrides
        results = dict(zip(map(tuple, distinct), self._run(distinct, initial_job_idx), strict=True))
        return [results[tuple(overrides)] for overrides in job_overrides]

    @property
    def _suggests_settings(self) -> bool:
        """True if the sweeper searches for the best settings, instead of listing all."""
        return self.config.hydra.sweeper.get("direction") is not None

    def _run(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        for overrides in job_overrides:
            check_overrides(overrides)
        configs = [self._compose(initial_job_idx + n, overrides) for n, overrides in enumerate(job_overrides)]
        for config in configs:
            check_composed_config(config)
            _check_direction(self.config.hydra.sweeper.get("direction"), config.callbacks.get("checkpoint"))
        jobs = [self._job(overrides, config) for overrides, config in zip(job_overrides, configs, strict=True)]
        self._check_folders(jobs)
        folder = Path(str(self.config.hydra.sweep.dir))
        self.configs += configs
        self.sweep = Sweep(folder, jobs, min(self.n_jobs, len(jobs)), self._write_table, before=self.sweep)
        self.sweep.run()
        if not self._suggests_settings:
            if set(self.sweep.states) != {"completed"}:  # an error of ours, because Hydra's repeats all overrides
                raise UserError(self.sweep.failures())
            if len(jobs) > 1:
                when = "" if jobs[-1].scored else ", once they are scored (score_test=true)"
                log.info("to compare them%s: %s %s", when, name_command("compare"), folder)
        return [self._result(job, state) for job, state in zip(jobs, self.sweep.states[-len(jobs) :], strict=True)]

    def _compose(self, number: int, overrides: Sequence[str]) -> DictConfig:
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config

    def _job(self, overrides: Sequence[str], config: DictConfig) -> Job:
        folder = (Path(str(config.hydra.sweep.dir)) / str(config.hydra.sweep.subdir)).absolute()
        restart = config.resume is False or _has_other_settings(folder, config)
        return Job(tuple(overrides), folder, read_scoring(config), restart, config_dirs(self.config.hydra))

    def _check_folders(self, jobs: Sequence[Job]) -> None:
        folder, count = Counter(str(job.folder) for job in jobs).most_common(1)[0]
        if count > 1:
            unnamed = ", ".join(self.config.hydra.job.config.override_dirname.exclude_keys)
            raise ConfigurationError(
                f"two jobs of the sweep would write to {folder}: the same overrides are listed twice, or overrides "
                f"which are not part of a folder's name ({unnamed})"
            )

    def _write_table(self, jobs: Sequence[Job], states: Sequence[str]) -> None:
        """Write the paper's table that the sweep makes, if it makes one."""
        if self.config.tabulated:
            papers = (OmegaConf.to_container(config.paper) if config.paper else {} for config in self.configs)
            entries = [
                Entry(paper, config.seed, job.folder, state, job.overrides)
                for paper, config, job, state in zip(papers, self.configs, jobs, states, strict=True)
            ]
            write_table(Path(str(self.config.hydra.sweep.dir)), OmegaConf.to_container(self.config.tabulated), entries)

    def _result(self, job: Job, state: str) -> JobReturn:
        """Return the best validation score, which a sweeper optimizes, or the failure of the whole sweep."""
        result = JobReturn(overrides=list(job.overrides), working_dir=str(job.folder))
        if state == "completed":
            result.status, result.return_value = JobStatus.COMPLETED, job.summary().get("best", {}).get("score")
        else:
            result.status, result.return_value = JobStatus.FAILED, UserError(self.sweep.failures())
        return result


def _check_direction(direction: Any, checkpoint: DictConfig | None) -> None:
    """Refuse a sweeper that would look for the worst score."""
    name = getattr(direction, "name", direction)
    if checkpoint is None or not isinstance(name, str):
        return
    right = {"min": "minimize", "max": "maximize"}.get(checkpoint.mode, name)  # the job refuses any other mode
    if name != right:
        raise ConfigurationError(
            f"hydra.sweeper.direction={name}: looks for the worst {checkpoint.monitor} "
            f"(callbacks.checkpoint.mode={checkpoint.mode}). Fix: hydra.sweeper.direction={right}"
        )


def _has_other_settings(folder: Path, config: DictConfig) -> bool:
    """Return whether a job's run had other settings; what follows from it, the job itself decides."""
    try:
        trained = read_yaml(folder / CHECKPOINTS / CONFIG)
    except UnreadableError:
        return False
    return bool(find_changes(trained, OmegaConf.to_container(config))) if isinstance(trained, dict) else False
