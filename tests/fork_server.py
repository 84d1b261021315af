"""Run scripts in copies of a process that has imported the libraries, because the import takes seconds.

`fork_server.py SOCKET` serves until its standard input ends. `fork_client.py` asks it for copies.
"""

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

LIBRARIES = ("torch", "pytorch_lightning", "hydra", "omegaconf", "sacrebleu", "tokenizers", "matplotlib.figure")


def serve(path: str) -> socket.socket:
    """Accept clients; only copies return, each with its client."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                return client
            client.close()
    sys.exit()


def copy_for(client: socket.socket) -> dict:
    """Fork the copy that runs a script, and tell the client how it ended; only the copy returns, with the request."""
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
    client.sendall(f"{copy}\n".encode())
    end = os.pidfd_open(copy)
    if end in select.select([end, client], [], [])[0]:
        client.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])}\n".encode())
    else:  # the client was killed
        os.kill(copy, signal.SIGKILL)
    os._exit(0)


sys.path.pop(0)  # this folder, whose modules a script must not find
for library in LIBRARIES:
    importlib.import_module(library)
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the copies, even if the tests run in the background
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended copies of serve need no wait
client = serve(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
request = copy_for(client)
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["cwd"])
for number in request["ignored"]:
    signal.signal(number, signal.SIG_IGN)
sys.stdin = os.fdopen(0)
sys.executable, sys.argv = request["python"], request["words"]
named = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
sys.path[:0] = [os.path.dirname(os.path.realpath(sys.argv[0])), *map(os.path.abspath, filter(None, named))]
runpy.run_path(sys.argv[0], run_name="__main__")
