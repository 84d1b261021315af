"""Freed memory is kept: the next arrays cost no page faults."""

import os
import subprocess
import sys

import pytest
from commands import ROOT

PROGRAM = """
import resource, torch
from nmt.system.freed_memory import keep_freed_memory
keep_freed_memory()
def use():
    arrays = [torch.ones(2**20) for _ in range(6)]  # 4 MiB each, which is 1024 pages
for _ in range(3):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_page_faults(**variables: str) -> int:
    command = [sys.executable, "-c", PROGRAM]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | variables
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return int(result.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has mallopt")
def test_repeated_arrays_take_no_new_pages():
    assert count_page_faults() < 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has mallopt")
def test_the_users_own_settings_of_malloc_are_left_alone():
    assert count_page_faults(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > 10_000
