"""Pretraining: which run serves as the stage of another."""

import json
import os
import signal
import sys
import threading
import time

import pytest
from compositions import configured
from filelock import FileLock

from nmt.errors import UserError
from nmt.runs.job import Job
from nmt.training.pretraining import (
    _check_one_process,
    _offered_run,
    _train,
    _wait_for_offered_run,
    fingerprint,
    offer_as_stage,
)


def test_a_run_serves_as_stage_only_while_unchanged(tmp_path):
    place, run = tmp_path / "stages" / "nmt-1a2b", tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "best.ckpt").touch()
    assert _offered_run(place) is None
    offer_as_stage(run, place)
    for summary, serves in (
        ({"status": "completed", "stage": "nmt-1a2b"}, True),
        ({"status": "completed", "stage": "nmt-3c4d"}, False),  # trained again, or for longer
        ({"status": "completed"}, False),
        ({"status": "failed", "stage": "nmt-1a2b"}, False),
        ({"status": "completed", "stage": "nmt-1a2b", "code": ["abc", "def"]}, False),  # begun by other code
        ({"status": "completed", "stage": "nmt-1a2b", "went_on_with": "other.ckpt"}, False),
    ):
        (run / "summary.json").write_text(json.dumps({"code": ["def"]} | summary))
        assert _offered_run(place) == (run if serves else None)
    (run / "summary.json").write_text(json.dumps({"status": "completed", "stage": "nmt-1a2b", "code": ["def"]}))
    assert _offered_run(place) == run
    (run / "checkpoints" / "best.ckpt").unlink()  # to save room
    assert _offered_run(place) is None


@pytest.mark.parametrize("end", ["completed", "running"])  # running: as if it was killed
def test_a_run_in_training_is_waited_for(tmp_path, caplog, end):
    place, run = tmp_path / "stages" / "nmt-1a2b", tmp_path / "run"
    write_run(run, "running")
    offer_as_stage(run, place)
    begun = threading.Event()

    def train():
        with FileLock(run / ".lock"):
            begun.set()
            while not caplog.messages:
                time.sleep(0.01)
            write_run(run, end)

    caplog.set_level("INFO")
    (other := threading.Thread(target=train)).start()
    begun.wait()
    assert _wait_for_offered_run(place) == (run if end == "completed" else None)
    other.join()
    assert caplog.messages[0].startswith(f"pretraining: another process trains {run} with the same settings; waiting")


def write_run(run, status):
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    (run / "checkpoints" / "best.ckpt").touch()
    (run / "summary.json").write_text(json.dumps({"status": status, "stage": "nmt-1a2b", "code": ["def"]}))


def test_the_note_of_a_run_that_serves_is_kept(tmp_path):
    place, runs = tmp_path / "stages" / "nmt-1a2b", [tmp_path / name for name in ("first", "second", "third")]
    for run, status in zip(runs, ("failed", "completed", "running"), strict=True):
        write_run(run, status)
        offer_as_stage(run, place)
    assert _offered_run(place) == runs[1]


def test_the_search_decides_a_stage_only_if_validations_use_it(tmp_path):
    def of(*overrides):
        data = (f"data.cache={tmp_path}", "data.train.count=30", "data.valid.count=3")
        return fingerprint(configured(*data, *overrides), overrides)

    assert of("search.beam=10") == of("search.length_penalty=0.0") == of()
    assert of("validation=${search}", "search.beam=10") != of("validation=${search}")
    assert of("validation.beam=2") != of()


@pytest.mark.parametrize(
    "environment",
    [
        {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "RANK": "1"},
        {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "chain"},
    ],
)
def test_torchrun_and_srun_are_refused_with_the_command_for_the_stage(tmp_path, monkeypatch, environment):
    for name in ("TORCHELASTIC_RUN_ID", "WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    job = Job(("attention=dot", "seed=1"), tmp_path / "stage")
    _check_one_process(job)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"started 2 processes.*train\.py attention=dot seed=1 .*then give this"):
        _check_one_process(job)


def test_a_run_stopped_while_it_waits_for_its_stage_names_the_signal(tmp_path, monkeypatch):
    class StopError(Exception):
        pass

    def stop(number, frame):
        raise StopError(number)

    monkeypatch.setattr(Job, "command", lambda self: [sys.executable, "-c", "import time; time.sleep(60)"])
    before = signal.signal(signal.SIGTERM, stop)  # as a run has it
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        with pytest.raises(StopError, match="15"):
            _train(Job((), tmp_path))
    finally:
        signal.signal(signal.SIGTERM, before)
