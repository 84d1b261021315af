"""Run the project's commands as programs, or within this process if only status and errors matter."""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from functools import cache
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
    words = [str(ROOT / f"{verb}.py"), *map(str, arguments)]
    if any(key.startswith(("PYTHON", "LANG", "LC_")) for key in environment):  # which Python reads when it starts
        done = subprocess.run(
            [sys.executable, *words],
            input=stdin,
            capture_output=True,
            cwd=cwd,
            env=os.environ | environment,
            check=False,
        )
    else:
        done = run_in_copy(words, stdin, cwd, os.environ | environment)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert not check or done.returncode == 0, done.stderr
    return done


def run_in_copy(words: list[str], stdin: bytes, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess:
    """Run a command in a copy of a process that has imported the libraries (fork_server.py)."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin)
        request = {"words": words, "cwd": str(cwd), "environment": environment, "streams": list(map(str, streams))}
        server = fork_server()
        try:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
        except BaseException:  # a test that takes too long: the next one must not read its answer
            os.killpg(server.pid, signal.SIGKILL)  # with the copy that runs the command
            fork_server.cache_clear()
            raise
        return subprocess.CompletedProcess(words, status, streams[1].read_bytes(), streams[2].read_bytes())


@cache
def fork_server() -> subprocess.Popen:
    program = [sys.executable, str(Path(__file__).with_name("fork_server.py"))]
    return subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, process_group=0
    )
