"""Run commands in copies of a process that has imported the libraries, because the import takes seconds.

Each line of standard input is a request in JSON; the answer is a line with the exit status of the command.
"""

import importlib
import json
import os
import runpy
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the folder of the commands
importlib.import_module("nmt.training.experiment")


def wait_for_request() -> dict:
    """Answer requests; only their copies return, each with its request."""
    for line in sys.stdin:
        copy = os.fork()
        if copy == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
    sys.exit()


request = wait_for_request()
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["cwd"])
for number, path in enumerate(request["streams"]):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
sys.stdin, sys.argv = os.fdopen(0), request["words"]
runpy.run_path(sys.argv[0], run_name="__main__")
