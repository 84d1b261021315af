"""Hydra's launcher: each job of a sweep is a process of its own."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from nmt.config.diff import changed
from nmt.config.schema import check_composed, check_kinds
from nmt.errors import ConfigurationError, UserError
from nmt.launch.sweep import Sweep
from nmt.report.render.paper_table import Entry, write_table
from nmt.runs.folder import CHECKPOINTS, CONFIG
from nmt.runs.job import IS_JOB, Job

log = logging.getLogger(__name__)


class ProcessLauncher(Launcher):
    """Hydra's launcher of `conf/hydra/launcher/processes.yaml`."""

    def __init__(self, *, n_jobs: int):
        if n_jobs < 1:
            raise ConfigurationError(f"hydra.launcher.n_jobs={n_jobs}: must be at least 1")
        self.n_jobs = n_jobs
        self.sweep: Sweep | None = None  # a sweeper that suggests settings launches again and again
        self.configs: list[DictConfig] = []  # of all its jobs

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        if IS_JOB in os.environ:
            raise ConfigurationError("a job of a sweep, or a pretraining stage, cannot be a sweep itself")
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        once = list(dict.fromkeys(map(tuple, job_overrides))) if self._suggests else job_overrides
        returned = dict(zip(map(tuple, once), self._launched(once, initial_job_idx), strict=True))
        return [returned[tuple(overrides)] for overrides in job_overrides]

    @property
    def _suggests(self) -> bool:
        """Whether the sweeper looks for the best settings: it may suggest the same ones twice."""
        return self.config.hydra.sweeper.get("direction") is not None

    def _launched(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        for overrides in job_overrides:
            check_kinds(overrides)
        configs = [self._compose(initial_job_idx + n, overrides) for n, overrides in enumerate(job_overrides)]
        for config in configs:
            check_composed(config)
            _check_direction(self.config.hydra.sweeper.get("direction"), config.callbacks.get("checkpoint"))
        jobs = [_job(overrides, config) for overrides, config in zip(job_overrides, configs, strict=True)]
        if len({job.folder for job in jobs}) < len(jobs):
            twice, _ = Counter(str(job.folder) for job in jobs).most_common(1)[0]
            unnamed = ", ".join(self.config.hydra.job.config.override_dirname.exclude_keys)
            raise ConfigurationError(
                f"two jobs of the sweep would write to {twice}: the same overrides stand twice, or such as name no "
                f"folder ({unnamed})"
            )
        folder = Path(str(self.config.hydra.sweep.dir))
        self.configs += configs
        self.sweep = Sweep(folder, jobs, min(self.n_jobs, len(jobs)), self._tabulator(folder), before=self.sweep)
        self.sweep.run()
        if not self._suggests and set(self.sweep.states) != {"completed"}:  # Hydra would say it with all overrides
            raise UserError(self.sweep.failures())
        if not self._suggests and len(jobs) > 1:
            log.info("to compare them, once they are scored (score_test=true): python compare.py %s", folder)
        return [self._returned(job, state) for job, state in zip(jobs, self.sweep.states[-len(jobs) :], strict=True)]

    def _compose(self, number: int, overrides: Sequence[str]) -> DictConfig:
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config

    def _tabulator(self, folder: Path) -> Callable[[Sequence[Job], Sequence[str]], None]:
        """Writes the table that the sweep is to make, if it is to make one."""
        if not self.config.tabulated:
            return lambda jobs, states: None
        papers = [OmegaConf.to_container(config.paper) if config.paper else {} for config in self.configs]

        def write(jobs: Sequence[Job], states: Sequence[str]) -> None:
            entries = [
                Entry(paper, config.seed, job.folder, state, job.overrides)
                for paper, config, job, state in zip(papers, self.configs, jobs, states, strict=True)
            ]
            write_table(folder, self.config.tabulated, entries)

        return write

    def _returned(self, job: Job, state: str) -> JobReturn:
        """What sweepers optimise is the best validation score; any failure is the whole sweep's."""
        returned = JobReturn(overrides=list(job.overrides), working_dir=str(job.folder))
        if state == "completed":
            returned.status, returned.return_value = JobStatus.COMPLETED, job.summary().get("best", {}).get("score")
        else:
            returned.status, returned.return_value = JobStatus.FAILED, UserError(self.sweep.failures())
        return returned


def _check_direction(direction: Any, checkpoint: DictConfig | None) -> None:
    """Of a sweeper that looks for the best score of runs."""
    named = getattr(direction, "name", direction)
    if checkpoint is None or not isinstance(named, str):
        return
    fits = {"min": "minimize", "max": "maximize"}.get(checkpoint.mode, named)  # another mode the job refuses
    if named != fits:
        raise ConfigurationError(
            f"hydra.sweeper.direction={named} looks for the worst {checkpoint.monitor} "
            f"(callbacks.checkpoint.mode={checkpoint.mode}): hydra.sweeper.direction={fits}"
        )


def _job(overrides: Sequence[str], config: DictConfig) -> Job:
    HydraConfig.instance().set_config(config)  # the names of folders are made of its overrides
    folder = (Path(str(config.hydra.sweep.dir)) / str(config.hydra.sweep.subdir)).absolute()
    scored = (config.data.test, config.score_unknown) if config.score_test else None
    return Job(tuple(overrides), folder, scored, anew=config.resume is False or _has_other_settings(folder, config))


def _has_other_settings(folder: Path, config: DictConfig) -> bool:
    """What is then done about them, the job knows itself."""
    composed = folder / CHECKPOINTS / CONFIG
    try:
        trained = OmegaConf.to_container(OmegaConf.load(composed))
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException):
        return False
    return bool(changed(trained, OmegaConf.to_container(config))) if isinstance(trained, dict) else False
