"""What freed memory costs to use again."""

import ctypes
import os
import subprocess
import sys

import pytest

from nmt.system import malloc as allocation

# 64 MiB, taken and freed again and again: pages that had to be asked for anew each time
PROGRAM = """
import resource, sys, torch
from nmt.system.malloc import keep_freed_memory
if "keep" in sys.argv:
    keep_freed_memory()
for turn in range(20):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(16 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


GRANTED = (
    "import ctypes, sys; sys.exit(not ctypes.CDLL(None).mallopt(-3, 2**30))"  # an older glibc refuses, others fail
)


def test_memory_is_asked_for_once():
    if subprocess.run([sys.executable, "-c", GRANTED], capture_output=True, check=False).returncode:
        pytest.skip("this C library keeps no blocks as large as the test's")
    faults = {}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    for how in ("keep", "default"):
        command = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
        faults[how] = int(done.stdout)
    assert faults["keep"] < 30 < faults["default"]  # 160,000 pages, or 320 huge ones


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        (2**30, [(-3, 2**30), (-1, 2**31 - 1)]),
        (2**25, [(-3, 2**30), (-3, 2**25), (-1, 2**31 - 1)]),
        (0, [(-3, 2**30), (-3, 2**25)]),
    ],
)
def test_what_an_older_glibc_refuses_is_not_half_done(monkeypatch, granted, asked):
    calls = []

    class Library:
        @staticmethod
        def mallopt(what: int, value: int) -> int:
            calls.append((what, value))
            return int(what == allocation.TRIM_THRESHOLD or value <= granted)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    allocation.keep_freed_memory()
    assert calls == asked
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    allocation.keep_freed_memory()
    assert calls == asked
