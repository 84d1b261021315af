"""The private part of wandb does what wandb_internals says."""

import offline_wandb
import pytest

from nmt.training.wandb_internals import log_input


@pytest.mark.slow
def test_log_input(tmp_path):
    wandb = pytest.importorskip("wandb")
    with wandb.init(mode="offline", dir=tmp_path) as run:
        log_input(run, wandb.Artifact("data-toy", "dataset"))
    wandb.teardown()  # waits until everything is written
    (path,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    (logged,) = [record.artifact for record in offline_wandb.records(path) if record.HasField("artifact")]
    assert (logged.name, logged.type, logged.use_after_commit) == ("data-toy", "dataset", True)
