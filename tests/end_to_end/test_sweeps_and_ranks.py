"""Sweeps, and several processes that train one model."""

import csv
import json
import signal
import subprocess
import sys

import pytest
import torch
from commands import ROOT, command

TINY = (
    "size=tiny",
    "logger=none",
    "dropout=0.0",
    "data.train.count=300",
    "data.valid.count=21",
    "data.batches.size=25",
)


def test_the_sentence_of_the_readme_sweeps(tmp_path):
    arguments = ("attention=additive,dot,general", "trainer.max_epochs=1", f"hydra.sweep.dir={tmp_path}")
    command("train", "-m", *arguments, *TINY)
    runs = {path.parent.name.split(",")[0]: json.loads(path.read_text()) for path in tmp_path.glob("*/summary.json")}
    assert set(runs) == {"attention=additive", "attention=dot", "attention=general"}
    assert {run["status"] for run in runs.values()} == {"completed"}
    assert len({run["parameters"]["total"] for run in runs.values()}) == 3


def test_a_failing_job_does_not_stop_the_others_and_fails_the_sweep(tmp_path):
    arguments = ("size.encoder=10", "attention=dot,general", "trainer.max_epochs=1", f"hydra.sweep.dir={tmp_path}")
    done = command("train", "-m", *arguments, *TINY, check=False)
    assert done.returncode == 1
    assert "error: attention=dot multiplies the query" in done.stderr
    states = [json.loads(path.read_text())["status"] for path in tmp_path.glob("*/summary.json")]
    assert sorted(states) == ["completed", "failed"]


@pytest.mark.parametrize("normalize", ["words", "sentences"])
def test_two_ranks_learn_what_one_does(tmp_path, normalize):
    shared = (*TINY, "trainer.max_epochs=2", "trainer.log_every_n_steps=1", f"loss.normalize={normalize}")
    command("train", *shared, "trainer=cpu", f"hydra.run.dir={tmp_path}/one")
    command("train", *shared, "trainer=ddp_cpu", f"hydra.run.dir={tmp_path}/two")
    one, two = (torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True) for name in ("one", "two"))
    assert one["global_step"] == two["global_step"] == 24
    for name, value in one["state_dict"].items():
        torch.testing.assert_close(
            two["state_dict"][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )
    scores = [
        [row for row in csv.DictReader((tmp_path / name / "metrics.csv").open()) if row["valid/bleu"]]
        for name in ("one", "two")
    ]
    for single, double in zip(*scores, strict=True):
        for name in ("valid/loss", "valid/perplexity", "valid/bleu"):
            assert float(double[name]) == pytest.approx(float(single[name]), rel=1e-4), name


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_says_it_was_interrupted(tmp_path, sent):
    arguments = (
        "size=tiny",
        "logger=none",
        "data.train.count=2000",
        "trainer.max_epochs=1000",
        f"hydra.run.dir={tmp_path}",
    )
    program = subprocess.Popen(
        [sys.executable, ROOT / "train.py", *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    for line in program.stderr:
        if "epoch 1" in line and "validated" in line:  # what epoch 0 learnt is stored by then
            program.send_signal(sent)
            break
    _, said = program.communicate(timeout=60)
    assert program.returncode == 128 + sent
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "interrupted"
    assert (tmp_path / "checkpoints" / "last.ckpt").is_file()
    assert "Traceback" not in said
