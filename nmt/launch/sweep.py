"""A sweep on this machine: every job a process of its own, `n_jobs` at once.

A sweep started again by the same command leaves out what is completed, goes on with what was interrupted and starts
what failed once more. `sweep.json` in its folder says at any moment how every job stands.
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

from nmt.runs.folder import METRICS, SWEEP, read_metrics
from nmt.runs.job import Job, end_what_is_left, stop
from nmt.runs.provenance import code_version
from nmt.system.files import write_json
from nmt.system.hardware import cores
from nmt.system.signals import ENDING, raising
from nmt.system.slurm import WARNING, ending_signals, requeue

log = logging.getLogger(__name__)


SECONDS_BETWEEN_LOOKS = 0.2


SECONDS_BETWEEN_REPORTS = 60.0


@dataclass
class Place:
    """Where one job at a time runs: its share of the machine."""

    environment: dict[str, str]
    number: int | None = None  # of the job
    process: subprocess.Popen | None = None
    output: IO | None = field(default=None, repr=False)
    before: Mapping[str, Any] = field(default_factory=dict)  # what the job's summary said when it was started


class Sweep:
    """`on_change(jobs, states)` is called whenever a job starts or ends. `before`: what a sweeper that suggests one job
    after another has launched already; that is not launched again."""

    def __init__(
        self, folder: Path, jobs: Sequence[Job], at_once: int, on_change: Callable, before: "Sweep | None" = None
    ):
        self.folder, self.on_change = folder, on_change
        self.jobs = [*(before.jobs if before else ()), *jobs]
        self.states = list(before.states) if before else []
        self.states += ["completed" if job.needs_no_start else "waiting" for job in jobs]
        self.errors: dict[int, str] = dict(before.errors) if before else {}
        self.places = [Place(environment) for environment in shares_of_the_machine(at_once)]

    def run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        count = len(self.jobs)
        said = f"{count} job{'s' if count > 1 else ''}, {self.states.count('completed')} completed already"
        log.info("%s: %s", said, self.folder)
        self._say_what_other_code_trained()
        self._write()
        waiting = [number for number, state in enumerate(self.states) if state == "waiting"]
        reported = time.perf_counter()
        with _put_into_the_queue_again(), raising(_ends, *ENDING, *ending_signals()), self._stops_its_jobs():
            while waiting or any(place.process for place in self.places):
                for place in self.places:
                    if place.process and place.process.poll() is not None:
                        self._finish(place)
                    if not place.process and waiting:
                        self._start(place, waiting.pop(0))
                if len(self.places) > 1 and time.perf_counter() - reported > SECONDS_BETWEEN_REPORTS:
                    reported = time.perf_counter()
                    self._report()
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def _say_what_other_code_trained(self) -> None:
        done = [job for job, state in zip(self.jobs, self.states, strict=True) if state == "completed"]
        earlier = [job for job in done if code_version() not in job.summary().get("code", [code_version()])]
        if earlier:
            log.warning(
                "%d of them by other code than nmt/model and nmt/training hold now: another sweep= trains them anew",
                len(earlier),
            )

    def _start(self, place: Place, number: int) -> None:
        job = self.jobs[number]
        if job.needs_no_start:  # somebody else has completed it since the sweep began
            self.states[number] = "completed"
            self._write()
            return
        job.folder.mkdir(parents=True, exist_ok=True)
        place.number, place.before = number, job.summary()
        if len(self.places) > 1:  # a single one may say what it does on the terminal
            place.output = (job.folder / "output.log").open("a", encoding="utf-8")
        place.process = job.start(output=place.output, environment=place.environment)
        self.states[number] = "running"
        log.info("job %d of %d started: %s", number + 1, len(self.jobs), self._title(job))
        self._write()

    def _finish(self, place: Place) -> None:
        job, number = self.jobs[place.number], place.number
        end_what_is_left(place.process)
        output = Path(place.output.name) if place.output else None
        self.states[number], self.errors[number] = _outcome(job, place.before, place.process.returncode, output)
        if place.output:
            place.output.close()
        place.process = place.number = place.output = None
        score = job.summary().get("best", {}).get("score")
        completed = self.states[number] == "completed" and score is not None
        outcome = f"best {score:.4g}" if completed else self.errors[number]
        log.info("job %d of %d %s: %s: %s", number + 1, len(self.jobs), self.states[number], self._title(job), outcome)
        self._write()

    @contextmanager
    def _stops_its_jobs(self) -> Iterator[None]:
        """Told to stop, the sweep stops its jobs and waits until they have said where they are."""
        try:
            yield
        finally:
            busy = [place for place in self.places if place.process]
            try:
                stop([place.process for place in busy])
            finally:
                for place in busy:
                    self._finish(place)

    def _report(self) -> None:
        counts = ", ".join(f"{self.states.count(state)} {state}" for state in dict.fromkeys(self.states))
        log.info("%s", counts)
        for place in self.places:
            if place.process:
                job = self.jobs[place.number]
                log.info("  %s: %s", self._title(job), progress(job.folder))

    def failures(self) -> str:
        states = zip(self.jobs, self.states, strict=True)
        failed = {number: job for number, (job, state) in enumerate(states) if state != "completed"}
        errors = {number: self.errors.get(number) or job.summary().get("error") for number, job in failed.items()}
        reasons = "; ".join(f"{self._title(job)}: {errors[number] or 'not begun'}" for number, job in failed.items())
        return f"{len(failed)} of {len(self.jobs)} jobs failed: {reasons}"

    def _title(self, job: Job) -> str:
        """What tells a job from the others."""
        shared = set.intersection(*(set(job.overrides) for job in self.jobs)) if len(self.jobs) > 1 else set()
        return " ".join(override for override in job.overrides if override not in shared) or job.folder.name

    def _write(self) -> None:
        jobs: list[dict[str, Any]] = []
        for number, (job, state) in enumerate(zip(self.jobs, self.states, strict=True)):
            summary = job.summary() if state not in ("waiting", "running") else {}
            kept = {key: summary[key] for key in ("best", "wall_seconds") if key in summary}
            kept |= {"error": error} if (error := self.errors.get(number)) else {}
            jobs.append({"folder": job.folder.name, "overrides": list(job.overrides), "status": state} | kept)
        write_json(self.folder / SWEEP, {"jobs": jobs})
        self.on_change(self.jobs, self.states)


def _ends(number: int) -> SystemExit:
    return SystemExit(128 + number)


@contextmanager
def _put_into_the_queue_again() -> Iterator[None]:
    """Where its time was over, when its jobs have been stopped."""
    try:
        yield
    except SystemExit as ended:
        if ended.code == 128 + WARNING:
            requeue()
        raise


def _outcome(job: Job, before: Mapping[str, Any], code: int, output: Path | None) -> tuple[str, str]:
    """How a job stands that has ended, and its error. A summary that is what it was before says nothing of this."""
    summary = job.summary()
    if job.is_completed and (code == 0 or summary != before):
        return "completed", ""
    if code < 0:
        return "interrupted", f"killed by {signal.Signals(-code).name}"
    ended = summary.get("status") in ("failed", "interrupted") and summary != before
    told = summary.get("error") if ended else output and _last_line(output)
    return summary["status"] if ended else "failed", told or f"exit status {code}"


def _last_line(path: Path) -> str | None:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), None)


def progress(folder: Path) -> str:
    """Where a run is, by its metrics."""
    rows = read_metrics(folder / METRICS)
    if not rows:
        return "starting"
    scored = [row for row in rows if row.get("valid/bleu")]
    return f"step {rows[-1]['step']}" + (f", valid/bleu {float(scored[-1]['valid/bleu']):.4g}" if scored else "")


def shares_of_the_machine(count: int) -> list[dict[str, str]]:
    """The environment of each of `count` jobs that run at once: their own GPUs, and their part of the cores."""
    if count == 1:
        return [{}]
    import torch  # which takes seconds, and every command of Hydra's imports its launchers

    shown = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.cuda.device_count()))))
    devices = [device for device in shown.split(",") if device]
    threads = max(1, cores() // count)
    shares = []
    for number in range(count):
        share = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
        if devices:
            share["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number % len(devices) :: count])
        shares.append(share)
    return shares
