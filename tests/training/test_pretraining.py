"""Which run serves as the stage that another one builds upon."""

import json
import os
import signal
import sys
import threading

import pytest

from nmt.errors import UserError
from nmt.runs.job import Job
from nmt.training.pretraining import _must_be_one_process, _run, _same_elsewhere, offer


def test_a_run_serves_only_while_it_is_what_was_offered(tmp_path):
    place, run = tmp_path / "stages" / "nmt-1a2b", tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "best.ckpt").touch()
    assert _same_elsewhere(place) is None
    offer(run, place, of_another=None)
    for summary, serves in (
        ({"status": "completed", "stage": "nmt-1a2b"}, True),
        ({"status": "completed", "stage": "nmt-3c4d"}, False),  # trained anew, or for longer
        ({"status": "completed"}, False),
        ({"status": "failed", "stage": "nmt-1a2b"}, False),
        ({"status": "completed", "stage": "nmt-1a2b", "code": ["abc", "def"]}, False),  # begun by other code
    ):
        (run / "summary.json").write_text(json.dumps({"code": ["def"]} | summary))
        assert _same_elsewhere(place) == (run if serves else None)
    (run / "summary.json").write_text(json.dumps({"status": "completed", "stage": "nmt-1a2b", "code": ["def"]}))
    assert _same_elsewhere(place) == run
    (run / "checkpoints" / "best.ckpt").unlink()  # to save room
    assert _same_elsewhere(place) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "RANK": "1"},
        {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "chain"},
    ],
)
def test_processes_started_from_outside_are_told_how_to_train_the_stage_first(tmp_path, monkeypatch, environment):
    for name in ("TORCHELASTIC_RUN_ID", "WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    job = Job(("attention=dot", "seed=1"), tmp_path / "stage")
    _must_be_one_process(job)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"started 2 processes.*train\.py attention=dot seed=1 .*then give this"):
        _must_be_one_process(job)


def test_a_run_told_to_stop_while_it_waits_for_the_stage_knows_by_which_signal(tmp_path, monkeypatch):
    class ToldToStopError(Exception):
        pass

    def stop(number, frame):
        raise ToldToStopError(number)

    monkeypatch.setattr(Job, "command", lambda self: [sys.executable, "-c", "import time; time.sleep(60)"])
    before = signal.signal(signal.SIGTERM, stop)  # as a run has it
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        with pytest.raises(ToldToStopError, match="15"):
            _run(Job((), tmp_path))
    finally:
        signal.signal(signal.SIGTERM, before)
