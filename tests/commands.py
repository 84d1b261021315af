"""Run the project's commands as programs, or within this process if only status and errors matter."""

import atexit
import json
import os
import runpy
import shlex
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from fork_client import read_at_start
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra_mode import get_mode

ROOT = Path(__file__).parent.parent
AT_START = dict(os.environ)  # before a test changes it
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
    monkeypatch.setattr(Hydra, "get_mode", get_mode)
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
    words = [quick_python(), ROOT / f"{verb}.py", *map(str, arguments)]
    variables = os.environ | environment
    done = subprocess.run(words, input=stdin, capture_output=True, cwd=cwd, env=variables, check=False)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert not check or done.returncode == 0, done.stderr
    return done


def quick_python() -> str:
    """Return a program that stands for Python and runs scripts in copies of one process (fork_server.py)."""
    server, program = start_server()
    assert server.poll() is None, "the server of copies has ended"
    return str(program)


@cache
def start_server() -> tuple[subprocess.Popen, Path]:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    here, program, address = Path(__file__).parent, Path(folder.name) / "python", f"{folder.name}/socket"
    client = ["-IS", here / "fork_client.py", address, sys.executable, program, json.dumps(read_at_start(AT_START))]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, [sys.executable, *client]))} "$@"\n')
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        number = listener.fileno()
        command = [sys.executable, here / "fork_server.py", str(number)]
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=ROOT, env=AT_START, pass_fds=[number], start_new_session=True
        )
    return server, program


def quick_path() -> str:
    """Return a PATH on which `python` is the quick one, and the other commands are this environment's."""
    return os.pathsep.join([os.path.dirname(quick_python()), os.path.dirname(sys.executable), os.environ["PATH"]])
