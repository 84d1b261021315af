"""A long sweep needs no more memory and files than a short one, and leaves no process."""

import runpy

import pytest
from commands import ROOT


@pytest.mark.slow
def test_a_sweep_leaks_neither_processes_nor_files_nor_memory(tmp_path):
    watched_sweep = runpy.run_path(str(ROOT / "benchmarks" / "many_jobs.py"))["watched_sweep"]
    result = watched_sweep(tmp_path / "sweep", jobs=8, at_once=2)
    assert result["status"] == 0
    assert result["states"] == {"completed": 8}
    assert result["late"]["done"] == 8
    assert result["late"]["files"] <= result["early"]["files"]
    assert result["late"]["memory"] < result["early"]["memory"] + 10
    assert result["processes_left"] == 0
