"""A run as a process of its own: where it lands, how it stands, how it is started or gone on with."""

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

from hydra.core.hydra_config import HydraConfig

from nmt.config.explain import WANTS_TRACEBACK
from nmt.config.overrides import quoted
from nmt.runs.folder import is_scored, read_summary

TRAIN = Path(__file__).parents[2] / "train.py"
SECONDS_TO_STOP = 60.0
SECONDS_TO_FINISH = 10.0
IS_JOB = "NMT_IS_JOB"  # in a job's environment


@dataclass(frozen=True)
class Job:
    """Overrides as on the command line, and the run's folder."""

    overrides: tuple[str, ...]
    folder: Path
    scored: tuple[str | None, str] | None = None  # on which test set, with what done to unknown words, if it is to be
    anew: bool = False  # to be started even where it is completed

    def summary(self) -> dict[str, Any]:
        return read_summary(self.folder)

    @property
    def is_completed(self) -> bool:
        return self.summary().get("status") == "completed" and (not self.scored or is_scored(self.folder, *self.scored))

    @property
    def needs_no_start(self) -> bool:
        return self.is_completed and not self.anew

    def command(self) -> list[str]:
        """What is there already in its folder is gone on with."""
        command = [sys.executable, str(TRAIN), *_config_dir()]
        return [*command, *self.overrides, "hydra.mode=RUN", f"hydra.run.dir={quoted(self.folder)}"]

    def start(self, *, output: IO | None = None, environment: Mapping[str, str] | None = None) -> subprocess.Popen:
        """A group of its own, so that Ctrl-C reaches it only through whoever started it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=output or sys.stderr,
            stderr=output or sys.stderr,
            env=_surroundings() | dict(environment or {}),
            start_new_session=True,
        )


def _config_dir() -> list[str]:
    """A folder of configurations that the user added (--config-dir) is the jobs' too."""
    sources = HydraConfig.get().runtime.config_sources if HydraConfig.initialized() else []
    return [word for source in sources if source.provider == "command-line" for word in ("--config-dir", source.path)]


def _surroundings() -> dict[str, str]:
    """Ours; but a job shows tracebacks only where the user asked us for them, and knows that it is one."""
    kept = {key: value for key, value in os.environ.items() if key != "HYDRA_FULL_ERROR" or WANTS_TRACEBACK}
    return kept | {IS_JOB: "1"}


def stop(processes: Sequence[subprocess.Popen]) -> None:
    """Runs say that they were interrupted; what does not end, or is not to be waited for any longer, is killed.

    By SIGTERM: what was started in a shell's background ignores SIGINT, and so do the processes it starts.
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
            end_what_is_left(process)


def end_what_is_left(process: subprocess.Popen) -> None:
    """Of an ended job's group: a rank may wait for ever, its GPU taken, for one that died; what W&B writes takes a
    moment."""
    deadline = time.monotonic() + SECONDS_TO_FINISH
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
