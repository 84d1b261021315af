"""Install a peer into an environment of its own, and measure the commands that run there.

Two interpreters run each script of a peer: any Python runs it as a script, and the peer's Python trains or searches.
This module imports only the standard library, because both interpreters import it.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LINES_OF_A_FAILURE = 15  # the last lines of the log that an error prints


@dataclass(frozen=True)
class Peer:
    """A system to compare with; error messages begin with the name of the `script` that runs it."""

    script: str
    title: str
    distribution: str
    version: str
    installation: tuple[list[str], ...]  # the arguments of each `pip install`, in order

    def install(self, python: Path) -> None:
        """Create the environment of `python` (…/bin/python), and install the peer into it."""
        commands = [[sys.executable, "-m", "venv", str(python.parent.parent)]]
        commands += [[str(python), "-m", "pip", "install", "--quiet", *packages] for packages in self.installation]
        for command in commands:
            if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
                self.fail(f"installation failed: {' '.join(command)}")

    def check(self, python: Path, data: Path, files: tuple[str, ...]) -> None:
        """Exit with a one-line error if a file, the environment or the peer is missing."""
        missing = [name for name in files if not (data / name).is_file()]
        if missing:
            self.fail(f"--data {data}: has no {', '.join(missing)}")
        if not python.is_file():
            self.fail(f"--python {python}: no such file. Fix: --install creates an environment there")
        program = f"from importlib import metadata; print(metadata.version({self.distribution!r}))"
        result = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
        version = result.stdout.strip() or "not installed"
        if version != self.version:
            self.fail(f"--python {python}: {self.title} must be {self.version}, but is {version}. Fix: --install")

    def run(self, command: list[str], threads: int, log: Path, **environment: str) -> int:
        """Run a command of the peer's environment in the folder of its log, and return its peak memory in MiB."""
        variables = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)} | environment
        with log.open("w") as output:
            child = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=log.parent.absolute()
            )
            try:
                # wait4, because getrusage(RUSAGE_CHILDREN) covers all children
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            finally:
                child.kill()  # no effect on an ended child; stops the training of an interrupted benchmark
        if child.returncode:
            last = log.read_text(errors="replace").splitlines()[-LINES_OF_A_FAILURE:]
            print(*last, sep="\n", file=sys.stderr)
            self.fail(f"{' '.join(command)} ended with status {child.returncode}")
        return peak_mebibytes(usage)

    def stop_child_on_sigterm(self) -> None:
        """Exit by an exception on SIGTERM, so that `run` stops its child."""
        signal.signal(signal.SIGTERM, lambda *_: self.fail("terminated"))

    def fail(self, reason: str) -> None:
        """Exit with an error."""
        sys.exit(f"{self.script}: {reason}")


def record_updates(trainer: type, words: str) -> list[tuple[float, int]]:
    """Make a trainer of OpenNMT-py or eole note [seconds, target words so far] after each update, in the list returned.

    Args:
        trainer: Its class, whose report is replaced: it follows the optimizer's step, and replacing it costs nothing.
        words: The attribute of its statistics with the number of target words.
    """
    records: list[tuple[float, int]] = []

    def record(trainer, step, steps, learning_rate, statistics):
        records.append((time.perf_counter(), getattr(statistics, words)))
        return statistics

    trainer._maybe_report_training = record
    return records


def measure_second_half(clock: Path, updates: int) -> dict:
    """Return words per second in the second half of the updates, and the mean of words per update.

    Args:
        clock: A JSON file with [seconds, target words so far] after each update.
        updates: The number of updates.
    """
    records = json.loads(clock.read_text())
    (began, words_before), (ended, words) = records[updates // 2 - 1], records[-1]
    rate = round((words - words_before) / (ended - began), 1)
    return {"tokens_per_second": rate, "updates": len(records), "words_per_update": words / len(records)}


def choose_clock(threads: int) -> Callable[[], float]:
    """Return the clock of a measurement on the CPU: of one thread its time on the processor, else the time that passes.

    Other programs on the same core barely change the first.
    """
    return time.process_time if threads == 1 else time.perf_counter


def search_figures(hypotheses: list[str], seconds: float) -> dict:
    """Return the figures of one search; the process that searched must call this, because it reads its memory."""
    return {
        "sentences_per_second": len(hypotheses) / seconds,
        "words_per_sentence": sum(len(line.split()) for line in hypotheses) / len(hypotheses),
        "peak_memory_mib": peak_mebibytes(resource.getrusage(resource.RUSAGE_SELF)),
    }


def peak_mebibytes(usage: resource.struct_rusage) -> int:
    """Return the peak memory in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # because ru_maxrss is in bytes on macOS, in KiB elsewhere
    return round(usage.ru_maxrss / unit)
