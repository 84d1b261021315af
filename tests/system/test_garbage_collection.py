"""No garbage is collected during imports, and later collections skip the objects of imports."""

import gc
import subprocess
import sys

import pytest
from commands import ROOT

from nmt.system.garbage_collection import pause_garbage_collection


def import_nothing() -> None:
    with pause_garbage_collection():
        assert not gc.isenabled()
        raise ImportError


def test_garbage_is_collected_again_after_a_failed_import():
    with pytest.raises(ImportError):
        import_nothing()
    assert gc.isenabled()


def test_only_the_objects_of_the_first_pause_are_left_out():
    program = """
import gc
from nmt.system.garbage_collection import pause_garbage_collection
with pause_garbage_collection():
    objects = [[] for _ in range(10_000)]
first = gc.get_freeze_count()
with pause_garbage_collection():
    more = [[] for _ in range(10_000)]
print(first > 10_000, gc.get_freeze_count() - first)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "True 0\n"
