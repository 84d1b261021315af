"""A SLURM job, by the environment that SLURM gives it."""

import pytest

from nmt.system.slurm import job_number, requeue

ALONE = {"SLURM_JOB_ID": "7"}
TASK = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(("environment", "number"), [({}, None), (ALONE, "7"), (TASK, "7_3")])
def test_a_task_of_an_array_requeues_itself_alone(tmp_path, monkeypatch, environment, number):
    for name in TASK:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert job_number() == number
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if number:
        requeue()
        assert (tmp_path / "arguments").read_text() == f"requeue {number}\n"
