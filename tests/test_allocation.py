"""What freed memory costs to use again."""

import subprocess
import sys

import pytest

# 64 MiB, taken and freed again and again: pages that had to be asked for anew each time
PROGRAM = """
import resource, sys, torch
from nmt.allocation import keep_freed_memory
if "keep" in sys.argv:
    keep_freed_memory()
for turn in range(20):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(16 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
def test_memory_is_asked_for_once():
    faults = {}
    for how in ("keep", "default"):
        done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
        faults[how] = int(done.stdout)
    assert faults["keep"] < 30 < faults["default"]  # 160,000 pages, or 320 huge ones
