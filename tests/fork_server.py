"""Run scripts in copies of a process that has imported the libraries, because the import takes seconds.

`fork_server.py NUMBER` serves at a socket, whose descriptor it inherits, until its standard input ends. For each
request of `fork_client.py` it forks a helper, which forks the copy, waits for it, and tells the client how it ended.
Copies have the server's seed of hashes, so results that depend on it do not differ between them.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import sys

from fork_client import PASSED_ON

LIBRARIES = ("torch", "pytorch_lightning", "hydra", "omegaconf", "sacrebleu", "tokenizers", "matplotlib.figure")
LIBRARIES += ("filelock", "jaxtyping", "safetensors.torch")


def serve(listener: socket.socket) -> socket.socket:
    """Accept clients; only helpers return, each with its client."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that the system removes ended helpers
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return client
        client.close()
    sys.exit()


def fork_copy(client: socket.socket) -> dict:
    """Fork the copy that runs a script; only the copy returns, with the request."""
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    request = json.loads(client.makefile().readline())
    copy = os.fork()
    if copy == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        client.close()
        return request
    for stream in streams:
        os.close(stream)
    try:
        client.sendall(f"{copy}\n".encode())
        end = os.pidfd_open(copy)
        if end in select.select([end, client], [], [])[0]:  # otherwise the client was killed
            client.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])}\n".encode())
            copy = None
    finally:
        if copy:
            os.kill(copy, signal.SIGKILL)
        os._exit(0)


def end_without_clearing() -> None:
    """End this copy after its other exit functions.

    To clear the shared modules would copy their memory, which takes over a second. So files that a script leaves open
    are not flushed, and errors while modules are cleared are not seen.
    """
    if status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


status: int | None = None  # of the script; None until it ends, and if Ctrl-C ends it
atexit.register(end_without_clearing)  # first, so that it is called last
hydra_mode = importlib.import_module("hydra_mode")
hydra_mode.Hydra.get_mode = hydra_mode.get_mode
sys.path.pop(0)  # this folder, whose modules a script must not find
for library in LIBRARIES:
    importlib.import_module(library)
numpy = importlib.import_module("numpy")
rank_zero = importlib.import_module("lightning_fabric.utilities.rank_zero")
gc.freeze()  # or garbage collection in a copy would copy the libraries' memory
request = fork_copy(serve(socket.socket(fileno=int(sys.argv[1]))))
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["cwd"])
for number in PASSED_ON:
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN if number in request["ignored"] else default)
rank_zero.rank_zero_only.rank = rank_zero._get_rank() or 0  # Lightning sets it when it is imported
random.seed()  # or each copy would draw the same numbers
numpy.random.seed()
sys.stdin = os.fdopen(0)
sys.executable, sys.argv = request["python"], request["words"]
named = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
sys.path[:0] = [os.path.dirname(os.path.realpath(sys.argv[0])), *map(os.path.abspath, filter(None, named))]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
    status = 0
except SystemExit as end:
    status = (end.code or 0) if isinstance(end.code, int | None) else 1
    raise
except Exception:
    status = 1
    raise
