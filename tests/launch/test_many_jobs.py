"""A sweep holds no more the longer it is, and leaves nothing."""

import runpy

import pytest
from commands import ROOT


@pytest.mark.slow
def test_a_sweep_leaks_neither_processes_nor_files_nor_memory(tmp_path):
    watched_sweep = runpy.run_path(str(ROOT / "benchmarks" / "many_jobs.py"))["watched_sweep"]
    found = watched_sweep(tmp_path / "sweep", jobs=8, at_once=2)
    assert found["status"] == 0
    assert found["states"] == {"completed": 8}
    assert found["late"]["done"] == 8
    assert found["late"]["files"] <= found["early"]["files"]
    assert found["late"]["memory"] < found["early"]["memory"] + 10
    assert found["processes_left"] == 0
