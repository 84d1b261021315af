"""What the scripts of the peers share: an environment of each peer's own, and what runs in it measured.

Every such script is run by two interpreters: by any Python as a script, and by the peer's Python, which trains or
searches. So nothing but the standard library is imported here.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LINES_OF_A_FAILURE = 15


@dataclass(frozen=True)
class Peer:
    """A system to compare with, and the `script` that runs it, which errors are reported under."""

    script: str
    title: str
    distribution: str
    version: str
    installation: tuple[list[str], ...]  # the arguments of one `pip install` after the other

    def install(self, python: Path) -> None:
        """Make the environment that `python` (…/bin/python) belongs to, with the peer in it."""
        commands = [[sys.executable, "-m", "venv", str(python.parent.parent)]]
        commands += [[str(python), "-m", "pip", "install", "--quiet", *packages] for packages in self.installation]
        for command in commands:
            if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
                self.fail(f"installing failed at: {' '.join(command)}")

    def check(self, python: Path, data: Path, files: tuple[str, ...]) -> None:
        """Leave with one line if something is missing."""
        missing = [name for name in files if not (data / name).is_file()]
        if missing:
            self.fail(f"{data} has no {', '.join(missing)}")
        if not python.is_file():
            self.fail(f"there is no Python at {python}; --install makes an environment there")
        question = f"from importlib import metadata; print(metadata.version({self.distribution!r}))"
        answer = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
        found = answer.stdout.strip() or "not installed"
        if found != self.version:
            self.fail(f"{self.title} {self.version} is needed at {python}, it is {found}; --install installs it")

    def run(self, command: list[str], threads: int, log: Path, **environment: str) -> int:
        """Run a command of the peer's environment in the folder of its log; returns its peak memory in MiB."""
        variables = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)} | environment
        with log.open("w") as output:
            child = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=log.parent.absolute()
            )
            try:
                _, status, usage = os.wait4(child.pid, 0)  # of this child alone, unlike getrusage(RUSAGE_CHILDREN)
                child.returncode = os.waitstatus_to_exitcode(status)
            finally:
                child.kill()  # does nothing once the child has ended; an interrupted benchmark must not train on
        if child.returncode:
            last = log.read_text(errors="replace").splitlines()[-LINES_OF_A_FAILURE:]
            print(*last, sep="\n", file=sys.stderr)
            self.fail(f"{' '.join(command)} ended with status {child.returncode}")
        return mebibytes(usage)

    def stop_with_its_child(self) -> None:
        """A terminated script leaves as an interrupted one does, so that `finally` is reached."""
        signal.signal(signal.SIGTERM, lambda *_: self.fail("terminated"))

    def fail(self, reason: str) -> None:
        sys.exit(f"{self.script}: {reason}")


def second_half(clock: Path, updates: int) -> dict:
    """Words a second in the second half of the updates, from [seconds, target words so far] after each."""
    records = json.loads(clock.read_text())
    (began, words_before), (ended, words) = records[updates // 2 - 1], records[-1]
    return {"tokens_per_second": round((words - words_before) / (ended - began), 1), "updates": len(records)}


def search_figures(hypotheses: list[str], seconds: float) -> dict:
    """Of one search, from the process that has searched."""
    return {
        "sentences_per_second": len(hypotheses) / seconds,
        "words_per_sentence": sum(len(line.split()) for line in hypotheses) / len(hypotheses),
        "peak_memory_mib": mebibytes(resource.getrusage(resource.RUSAGE_SELF)),
    }


def mebibytes(usage: resource.struct_rusage) -> int:
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss counts bytes there, KiB elsewhere
    return round(usage.ru_maxrss / unit)
