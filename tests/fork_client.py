"""Run a script in a copy of the server's process; run anything else with the real Python.

`fork_client.py SOCKET PYTHON THIS VARIABLES [ARGUMENT …]`: PYTHON is the real one, THIS the program that stands for
it, and VARIABLES are those that Python read when the server started.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
READ_AT_START = ("PYTHON", "LANG", "LC_", "OMP_", "MKL_")


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Python and libraries read when they start.

    PYTHONPATH is left out, because each copy applies it itself.
    """
    names = [name for name in environment if name.startswith(READ_AT_START) and name != "PYTHONPATH"]
    return {name: environment[name] for name in names}


def run_in_copy(path: str, this: str, words: list[str]) -> int:
    """Return the exit status of a script, negative for a signal; signals to this process are passed on."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    # A shell lets "command &" ignore SIGINT
    ignored = [number for number in PASSED_ON if signal.getsignal(number) == signal.SIG_IGN]
    request = {"words": words, "cwd": os.getcwd(), "environment": dict(os.environ), "python": this, "ignored": ignored}
    socket.send_fds(server, [b"\n"], [0, 1, 2])
    server.sendall(f"{json.dumps(request)}\n".encode())
    answers = server.makefile()
    copy = int(answers.readline())

    def pass_on(number, frame):
        with suppress(ProcessLookupError):  # because it has ended
            os.kill(copy, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    return int(answers.readline())


if __name__ == "__main__":
    path, python, this, variables, *words = sys.argv[1:]
    if not words or not words[0].endswith(".py") or read_at_start(os.environ) != json.loads(variables):
        os.execv(python, [python, *words])
    status = run_in_copy(path, this, words)
    if status < 0:
        with suppress(OSError):  # of SIGKILL, whose handling cannot be set
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
