"""Run the project's commands as programs, or within this process if only status and errors matter."""

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
TWELVE_STEPS = (  # one epoch
    "size=tiny",
    "logger=none",
    "dropout=0.0",  # because dropout masks differ between numbers of processes
    "data.train.count=300",
    "data.valid.count=21",
    "data.batches.size=25",
)


def answer(verb: str, *arguments: str, capture, monkeypatch, **environment: str) -> tuple[int, str]:
    """Return exit status and standard error of a command, run in this process to save the start-up time."""
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", [f"{verb}.py", *arguments])
    status = 0
    try:
        runpy.run_path(str(ROOT / f"{verb}.py"), run_name="__main__")
    except SystemExit as exit_error:
        status = exit_error.code if isinstance(exit_error.code, int) else 1
        if isinstance(exit_error.code, str):
            print(exit_error.code, file=sys.stderr)
    finally:
        GlobalHydra.instance().clear()
        os.environ.pop("HYDRA_FULL_ERROR", None)
    return status, capture.readouterr().err


def command(verb: str, *arguments: str, stdin: bytes = b"", check: bool = True, cwd: Path = ROOT, **environment: str):
    """Return the finished process with output as text; a failing command fails the test."""
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
