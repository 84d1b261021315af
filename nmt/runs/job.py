"""A run as a process: its folder, its command, how it is started and stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig

from nmt.config.explain import SHOW_TRACEBACK
from nmt.config.installation import IS_INSTALLED, PACKAGE
from nmt.config.overrides import quote_value
from nmt.runs.folder import read_summary
from nmt.runs.scoring import Scoring, is_scored

TRAIN = ("-m", "nmt.cli.train") if IS_INSTALLED else (str(PACKAGE.parent / "train.py"),)
SECONDS_TO_STOP = 60.0
SECONDS_TO_FINISH = 10.0
IS_JOB = "NMT_IS_JOB"  # set in the environment of a job


@dataclass(frozen=True)
class Job:
    """A run to start, resume or skip.

    Args:
        overrides: its overrides, as on the command line.
        folder: the run's folder.
        scored: how it is scored after its training; None: it is not.
        restart: start it even if it is completed.
        config_dirs: folders of configurations that the user added (--config-dir).
    """

    overrides: tuple[str, ...]
    folder: Path
    scored: Scoring | None = None
    restart: bool = False
    config_dirs: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Read the run's summary.json."""
        return read_summary(self.folder)

    @property
    def is_completed(self) -> bool:
        """True if the run is trained, and scored if `scored` is set."""
        return self.summary().get("status") == "completed" and (not self.scored or is_scored(self.folder, self.scored))

    @property
    def is_skipped(self) -> bool:
        """True if there is nothing to start."""
        return self.is_completed and not self.restart

    def command(self) -> list[str]:
        """Return the command, which resumes what the folder already holds."""
        config_dirs = [word for path in self.config_dirs for word in ("--config-dir", path)]
        place = ("hydra.mode=RUN", f"hydra.run.dir={quote_value(self.folder)}")
        return [sys.executable, *TRAIN, *config_dirs, *self.overrides, *place]

    def start(self, *, output: IO | None = None, environment: Mapping[str, str] | None = None) -> subprocess.Popen:
        """Start it in a new process group, so that Ctrl-C reaches it only through the process that started it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=output or sys.stderr,
            stderr=output or sys.stderr,
            env=_environment() | dict(environment or {}),
            start_new_session=True,
        )


def config_dirs(hydra: DictConfig) -> tuple[str, ...]:
    """Return the folders of --config-dir that Hydra's settings name."""
    return tuple(source.path for source in hydra.runtime.config_sources if source.provider == "command-line")


def _environment() -> dict[str, str]:
    """Return our environment, in which HYDRA_FULL_ERROR stands only if the user set it, with the mark of a job."""
    inherited = {key: value for key, value in os.environ.items() if key != "HYDRA_FULL_ERROR" or SHOW_TRACEBACK}
    # because `python -m` would prefer another nmt/ in the working directory
    safe_path = {"PYTHONSAFEPATH": "1"} if IS_INSTALLED else {}
    return inherited | {IS_JOB: "1"} | safe_path


def stop(processes: Sequence[subprocess.Popen]) -> None:
    """Send SIGTERM and wait, so that runs note their interruption; kill what has not ended by then.

    SIGINT would not do, because processes that a shell started in the background ignore it.
    """
    running = [process for process in processes if process.poll() is None]
    try:
        for process in running:
            process.terminate()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for process in processes:
            end_process_group(process)


def end_process_group(process: subprocess.Popen) -> None:
    """Kill what is left of an ended job's process group, after a moment for W&B to write.

    A rank may wait for ever, with its GPU taken, for a rank that died.
    """
    deadline = time.monotonic() + SECONDS_TO_FINISH
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
