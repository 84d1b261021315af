"""The jobs of a sweep on this machine, several at once.

The same command again skips completed jobs, resumes interrupted ones and restarts failed ones. `sweep.json` in the
sweep's folder holds the state of every job at any moment.
"""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from nmt.runs.code_fingerprint import is_of_this_code
from nmt.runs.folder import LOCK, METRICS, SWEEP, read_metrics
from nmt.runs.job import Job, end_process_group, stop
from nmt.system.files import write_json
from nmt.system.hardware import available_cores
from nmt.system.locks import is_locked
from nmt.system.signals import END_SIGNALS, exit_of, raise_on_signals
from nmt.system.slurm import TIME_WARNING, requeue, warning_signals

log = logging.getLogger(__name__)


SECONDS_BETWEEN_POLLS = 0.2
SECONDS_BETWEEN_REPORTS = 60.0


@dataclass
class Slot:
    """A share of the machine, in which one job at a time runs."""

    environment: dict[str, str]
    number: int | None = None  # of the job
    process: subprocess.Popen | None = None
    output: IO | None = None
    summary_before: Mapping[str, Any] = field(default_factory=dict)  # of the job's run, when it was started


class Sweep:
    """Jobs and their states.

    Args:
        folder: the sweep's folder.
        jobs: the jobs to run.
        n_jobs: how many run at once.
        on_change: called with jobs and states whenever a job starts or ends.
        before: the sweep so far, of a sweeper that suggests one job after another; its jobs are not run again.
    """

    def __init__(
        self, folder: Path, jobs: Sequence[Job], n_jobs: int, on_change: Callable, before: "Sweep | None" = None
    ):
        self.folder, self.on_change = folder, on_change
        self.jobs = [*(before.jobs if before else ()), *jobs]
        self.states = list(before.states) if before else []
        self.states += ["completed" if job.is_skipped else "waiting" for job in jobs]
        self.errors: dict[int, str] = dict(before.errors) if before else {}
        self.slots = [Slot(environment) for environment in machine_shares(n_jobs)]
        shared = set.intersection(*(set(job.overrides) for job in self.jobs)) if len(self.jobs) > 1 else set()
        differences = ([override for override in job.overrides if override not in shared] for job in self.jobs)
        # what tells a job from the others
        self.titles = [" ".join(words) or job.folder.name for job, words in zip(self.jobs, differences, strict=True)]

    def run(self) -> None:
        """Run all waiting jobs; a failed one does not stop the others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        count = len(self.jobs)
        plural = "s" if count > 1 else ""
        log.info("%d job%s, %d completed already: %s", count, plural, self.states.count("completed"), self.folder)
        self._warn_of_other_code()
        self._write()
        waiting = [number for number, state in enumerate(self.states) if state == "waiting"]
        reported = time.perf_counter()
        with _requeue_at_end(), raise_on_signals(exit_of, *END_SIGNALS, *warning_signals()), self._stop_jobs_at_end():
            while waiting or any(slot.process for slot in self.slots):
                for slot in self.slots:
                    if slot.process and slot.process.poll() is not None:
                        self._finish(slot)
                    if not slot.process and waiting:
                        self._start(slot, waiting.pop(0))
                if len(self.slots) > 1 and time.perf_counter() - reported > SECONDS_BETWEEN_REPORTS:
                    reported = time.perf_counter()
                    self._report()
                time.sleep(SECONDS_BETWEEN_POLLS)

    def failures(self) -> str:
        """Return one line that names the failed jobs and their errors."""
        failed = [number for number, state in enumerate(self.states) if state != "completed"]
        reasons = "; ".join(f"{self.titles[number]}: {self.errors[number]}" for number in failed)
        return f"{len(failed)} of {len(self.jobs)} jobs failed: {reasons}"

    def _warn_of_other_code(self) -> None:
        completed = [job for job, state in zip(self.jobs, self.states, strict=True) if state == "completed"]
        earlier = [job for job in completed if not is_of_this_code(job.summary().get("code", []))]
        if earlier:
            log.warning(
                "%d of them were trained by code that has changed since; another sweep= trains them again",
                len(earlier),
            )

    def _start(self, slot: Slot, number: int) -> None:
        job = self.jobs[number]
        if job.is_skipped:  # because another process may have completed it since the sweep began
            self.states[number] = "completed"
            self._write()
            return
        job.folder.mkdir(parents=True, exist_ok=True)
        slot.number, slot.summary_before = number, job.summary()
        if is_locked(job.folder / LOCK):  # by the job of a sweep that was killed
            log.info(
                "job %d of %d: another process trains in %s; waiting for it", number + 1, len(self.jobs), job.folder
            )
        if len(self.slots) > 1:  # a single job writes to the terminal
            slot.output = (job.folder / "output.log").open("a", encoding="utf-8")
        slot.process = job.start(output=slot.output, environment=slot.environment)
        self.states[number] = "running"
        log.info("job %d of %d started: %s", number + 1, len(self.jobs), self.titles[number])
        self._write()

    def _finish(self, slot: Slot) -> None:
        job, number = self.jobs[slot.number], slot.number
        end_process_group(slot.process)
        output = Path(slot.output.name) if slot.output else None
        state, error = _outcome(job, slot.summary_before, slot.process.returncode, output)
        self.states[number], self.errors[number] = state, error
        if slot.output:
            slot.output.close()
        slot.process = slot.number = slot.output = None
        score = job.summary().get("best", {}).get("score")
        result = f"best {score:.4g}" if state == "completed" and score is not None else error
        log.info("job %d of %d %s: %s: %s", number + 1, len(self.jobs), state, self.titles[number], result)
        self._write()

    @contextmanager
    def _stop_jobs_at_end(self) -> Iterator[None]:
        """Stop running jobs when the sweep is stopped, and wait until they have noted where they are."""
        try:
            yield
        finally:
            busy = [slot for slot in self.slots if slot.process]
            try:
                stop([slot.process for slot in busy])
            finally:
                for slot in busy:
                    self._finish(slot)

    def _report(self) -> None:
        log.info("%s", ", ".join(f"{self.states.count(state)} {state}" for state in dict.fromkeys(self.states)))
        for slot in self.slots:
            if slot.process:
                log.info("  %s: %s", self.titles[slot.number], progress(self.jobs[slot.number].folder))

    def _write(self) -> None:
        jobs: list[dict[str, Any]] = []
        for number, (job, state) in enumerate(zip(self.jobs, self.states, strict=True)):
            summary = job.summary() if state not in ("waiting", "running") else {}
            result = {key: summary[key] for key in ("best", "wall_seconds") if key in summary}
            result |= {"error": error} if (error := self.errors.get(number)) else {}
            named = {"folder": job.folder.name, "name": self.titles[number], "overrides": list(job.overrides)}
            jobs.append(named | {"status": state} | result)
        write_json(self.folder / SWEEP, {"jobs": jobs})
        self.on_change(self.jobs, self.states)


@contextmanager
def _requeue_at_end() -> Iterator[None]:
    """Requeue the SLURM job if its time ended, after its jobs have been stopped."""
    try:
        yield
    except SystemExit as exit_error:
        if exit_error.code == 128 + TIME_WARNING:
            requeue()
        raise


def _outcome(job: Job, before: Mapping[str, Any], exit_status: int, output: Path | None) -> tuple[str, str]:
    """Return the state of an ended job and its error; an unchanged summary is of an earlier process."""
    summary = job.summary()
    if job.is_completed and (exit_status == 0 or summary != before):
        return "completed", ""
    if exit_status < 0:
        return "interrupted", f"killed by {signal.Signals(-exit_status).name}"
    if summary.get("status") in ("failed", "interrupted") and summary != before:
        return summary["status"], summary.get("error") or f"exit status {exit_status}"
    if exit_status - 128 in END_SIGNALS:  # before the run began to write a summary
        return "interrupted", f"stopped by {signal.Signals(exit_status - 128).name}"
    return "failed", (output and _last_line(output)) or f"exit status {exit_status}"


def _last_line(path: Path) -> str | None:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), None)


def progress(folder: Path) -> str:
    """Return how far a run is, by its metrics.csv."""
    rows = read_metrics(folder / METRICS)
    if not rows:
        return "starting"
    scored = [row for row in rows if row.get("valid/bleu")]
    return f"step {rows[-1]['step']}" + (f", valid/bleu {float(scored[-1]['valid/bleu']):.4g}" if scored else "")


def machine_shares(count: int) -> list[dict[str, str]]:
    """Return the environment of each of `count` jobs that run at once, with its own GPUs and its part of the cores."""
    if count == 1:
        return [{}]
    import torch  # here, because it takes seconds and every command of Hydra imports its launchers

    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.cuda.device_count()))))
    devices = [device for device in visible.split(",") if device]
    threads = max(1, available_cores() // count)
    shares = []
    for number in range(count):
        share = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
        if devices:
            share["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number % len(devices) :: count])
        shares.append(share)
    return shares
