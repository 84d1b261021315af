"""W&B in real runs: artifacts in the offline file, and a server that cannot be reached."""

import base64
import hashlib
import json
from pathlib import Path

import offline_wandb
import pytest
import wandb
from commands import TWO_STEPS, command

from nmt.data.toy_corpus import ToyPairs

LOGGED = [setting for setting in TWO_STEPS if setting != "logger=none"] + ["callbacks.translations.count=1"]


def read_artifacts(run_folder):
    """Return the artifacts of an offline run by type, with the digests of their files."""
    artifacts = {}
    for path in run_folder.glob("wandb/offline-run-*/run-*.wandb"):
        for record in offline_wandb.records(path):
            if record.HasField("artifact"):
                artifacts.setdefault(record.artifact.type, []).append(record.artifact)
    return artifacts


def digest(path):
    return base64.b64encode(hashlib.md5(path.read_bytes()).digest()).decode()


def test_artifacts_are_the_data_as_an_input_and_the_best_checkpoint_as_an_output(tmp_path):
    folder = tmp_path / "run"
    scored = ("score_test=true", "data.tests.test.count=5", f"data.cache={tmp_path}/cache")
    arguments = (*LOGGED, *scored, "logger.wandb.artifacts=text", f"hydra.run.dir={folder}")
    command("train", *arguments)
    assert "completed already" in command("train", *arguments).stderr  # and logs nothing again
    artifacts = read_artifacts(folder)
    (model,), (data,) = artifacts["model"], artifacts["dataset"]
    scores = json.loads((folder / "test" / "scores.json").read_text())["scores"]
    assert offline_wandb.read(folder)["summary"]["test/bleu"] == pytest.approx(scores["bleu"]["score"])
    summary = json.loads((folder / "summary.json").read_text())
    assert (model.name, sorted(model.aliases)) == (f"model-{summary['id']}", ["best", "latest"])
    assert json.loads(model.metadata) == summary["best"]
    (file,) = model.manifest.contents
    assert (file.path, file.digest) == ("best.ckpt", digest(folder / "checkpoints" / "best.ckpt"))
    assert file.local_path == str(folder / "checkpoints" / "best.ckpt")
    assert (data.name, data.use_after_commit, model.use_after_commit) == ("data-toy", True, False)
    names = {f"{split}.{side}.txt" for split in ("train", "valid") for side in ("source", "target")}
    texts = {entry.path: Path(entry.local_path).read_text(encoding="utf-8") for entry in data.manifest.contents}
    assert texts.keys() == names | {"data.json"}
    assert texts["train.source.txt"].splitlines() == [pair.source for pair in ToyPairs("train", 60)]
    assert texts["valid.target.txt"].splitlines() == [pair.target for pair in ToyPairs("valid", 8)]


@pytest.fixture
def process_of_wandb():
    """Start W&B's process as a program does that logs a run itself, such as a notebook."""
    wandb.teardown()  # that of earlier tests
    wandb.setup().ensure_service()
    yield
    wandb.teardown()


def test_a_run_is_logged_offline_if_wandb_cannot_be_reached(tmp_path, process_of_wandb):
    server = {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "0" * 40, "WANDB_MODE": "online"}
    done = command("train", *LOGGED, "logger=wandb", f"hydra.run.dir={tmp_path}/run", **server, WANDB_INIT_TIMEOUT="1")
    (warning,) = [line for line in done.stderr.splitlines() if "W&B" in line]
    assert "logger=wandb: W&B cannot be reached, so the run is logged offline" in warning
    logged = offline_wandb.read(tmp_path / "run")
    assert logged["exit_code"] == 0
    assert len(logged["history"]["valid/bleu"]) == 1
