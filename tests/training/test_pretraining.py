"""Which run serves as the stage that another one builds upon."""

import json

import pytest

from nmt.errors import UserError
from nmt.launch.job import Job
from nmt.training.pretraining import _must_be_one_process, _same_elsewhere, offer


def test_a_run_serves_only_while_it_is_what_was_offered(tmp_path):
    place, run = tmp_path / "stages" / "nmt-1a2b", tmp_path / "run"
    run.mkdir()
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
