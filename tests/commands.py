"""Runs the project's commands as a user does: as programs, or, where only their answer matters, within this process."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

from hydra.core.global_hydra import GlobalHydra

ROOT = Path(__file__).parent.parent
TWO_STEPS = (
    "size=tiny",
    "debug=steps",
    "logger=none",
    "data.train.count=60",
    "data.valid.count=8",
    "data.batches.size=8",
)
TWELVE_STEPS = (  # an epoch
    "size=tiny",
    "logger=none",
    "dropout=0.0",  # any number of processes learns the same
    "data.train.count=300",
    "data.valid.count=21",
    "data.batches.size=25",
)


def answer(verb: str, *arguments: str, capture, monkeypatch, **environment: str) -> tuple[int, str]:
    """Exit status and standard error of a command that ends early, without the seconds a new process needs to start."""
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", [f"{verb}.py", *arguments])
    status = 0
    try:
        runpy.run_path(str(ROOT / f"{verb}.py"), run_name="__main__")
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    finally:
        GlobalHydra.instance().clear()
        os.environ.pop("HYDRA_FULL_ERROR", None)
    return status, capture.readouterr().err


def command(verb: str, *arguments: str, stdin: bytes = b"", check: bool = True, cwd: Path = ROOT, **environment: str):
    """Standard output and error as text; fails the test where the command fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / f"{verb}.py"), *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=os.environ | environment,
        timeout=300,
        check=False,
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert not check or done.returncode == 0, done.stderr
    return done
