"""Pretraining and fine-tuning: each stage is trained once and reused by later runs."""

import json
import re
import signal
import subprocess
import sys

import pytest
import torch
from commands import ROOT, answer, command, quick_python

TINY = ("size=tiny", "logger=none", "dropout=0.0", "data.train.count=120", "data.valid.count=8", "data.batches.size=20")
ONCE = (*TINY, "trainer.max_epochs=1")
MEMORY = ("decoder=feedback", "memory=buffer", "pretraining={without: [memory]}", "fresh=[decoder.memory.*]")


def read_summary(folder):
    return json.loads((folder / "summary.json").read_text())


def load_weights(folder, name="last"):
    return torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)["state_dict"]


FIRST = """# @package _global_
defaults: [override /decoder: feedback]
name: first
"""
SECOND = """# @package _global_
defaults: [override /decoder: feedback, override /memory: buffer]
name: second
pretraining: {experiment: first}
fresh: [decoder.memory.*]
"""
THIRD = """# @package _global_
defaults: [second, override /attention: interactive]
name: third
pretraining: {experiment: second}
fresh: [decoder.attention.writing.*]
"""


def test_each_of_three_stages_records_the_weights_it_took_over(tmp_path):
    experiments = tmp_path / "mine" / "experiment"
    experiments.mkdir(parents=True)
    (experiments / "first.yaml").write_text(FIRST)
    (experiments / "second.yaml").write_text(SECOND)
    (experiments / "third.yaml").write_text(THIRD)
    folders = (f"pretraining_folder={tmp_path}/stages", f"hydra.run.dir={tmp_path}/run")
    done = command("train", "--config-dir", str(tmp_path / "mine"), "experiment=third", *ONCE, *folders)
    stages = {folder.name.split("-")[0]: folder for folder in (tmp_path / "stages").iterdir() if folder.is_dir()}
    assert set(stages) == {"first", "second"}
    last, middle = (read_summary(folder)["initialized_from"] for folder in (tmp_path / "run", stages["second"]))
    assert last["run"] == str(stages["second"])
    assert middle["run"] == str(stages["first"])
    assert "initialized_from" not in read_summary(stages["first"])
    assert last["fresh"] == [f"decoder.attention.writing.{name}.weight" for name in ("forget", "update")]
    assert "decoder.memory.erase.weight" in last["transferred"]
    assert all(name.startswith("decoder.memory.") for name in middle["fresh"])
    assert "fresh: decoder.attention.writing.forget.weight, decoder.attention.writing.update.weight" in done.stderr


@pytest.mark.slow
def test_a_run_waits_for_the_run_in_training_that_it_builds_on(tmp_path):
    recipes = tmp_path / "conf" / "experiment"
    recipes.mkdir(parents=True)
    (recipes / "first.yaml").write_text(FIRST)
    (recipes / "second.yaml").write_text(SECOND)
    shared = (*TINY, "trainer.max_epochs=5", f"user_dir={tmp_path}", f"pretraining_folder={tmp_path}/stages")

    def start(name: str) -> subprocess.Popen:
        words = [sys.executable, ROOT / "train.py", f"experiment={name}", *shared, f"hydra.run.dir={tmp_path}/{name}"]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT)

    with start("first") as first:
        next(line for line in first.stderr if "epoch 0" in line)
        first.send_signal(signal.SIGSTOP)  # so that it is still in training when the second looks
        with start("second") as second:
            waits = f"pretraining: another process trains {tmp_path}/first with the same settings; waiting"
            next(line for line in second.stderr if line.startswith(waits))
            first.send_signal(signal.SIGCONT)
            assert [run.communicate()[1] is None or run.returncode for run in (first, second)] == [0, 0]
    assert read_summary(tmp_path / "second")["initialized_from"]["run"] == str(tmp_path / "first")
    assert [path for path in (tmp_path / "stages").iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_two_parallel_runs_train_a_shared_stage_once_and_a_third_reuses_it(tmp_path):
    shared = (*ONCE, *MEMORY, f"pretraining_folder={tmp_path}/stages")
    runs = [
        subprocess.Popen(
            [quick_python(), ROOT / "train.py", *shared, f"memory.cells={cells}", f"hydra.run.dir={tmp_path}/{cells}"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for cells in (3, 4)
    ]
    logs = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], logs
    assert sum("pretraining: training" in text for text in logs) == 1
    taken = re.compile("pretraining: .* (is trained already|was trained with)")  # other locks also say that they wait
    assert sum(bool(taken.search(text)) for text in logs) == 1, logs
    third = command("train", *shared, "memory.cells=5", f"hydra.run.dir={tmp_path}/5")
    assert "is trained already" in third.stderr
    (stage,) = (folder for folder in (tmp_path / "stages").iterdir() if folder.is_dir())
    assert {read_summary(tmp_path / cells)["initialized_from"]["run"] for cells in "345"} == {str(stage)}


@pytest.mark.slow
def test_an_earlier_run_serves_as_a_stage_only_with_the_same_settings(tmp_path, capfd, monkeypatch):
    stages = f"pretraining_folder={tmp_path}/stages"

    monkeypatch.setattr(sys, "executable", quick_python())  # with which a stage is started

    def train_stage(*arguments, folder):
        status, log = answer(
            "train",
            *ONCE,
            stages,
            *arguments,
            f"hydra.run.dir={tmp_path}/{folder}",
            capture=capfd,
            monkeypatch=monkeypatch,
        )
        assert status == 0, log
        return log

    train_stage("decoder=feedback", "seed=3", "trainer.max_steps=3", folder="foreign")
    train_stage("decoder=feedback", f"ckpt_path={tmp_path}/foreign/checkpoints/last.ckpt", folder="gone_on")
    train_stage("decoder=feedback", folder="plain")
    assert f"{tmp_path}/plain was trained with the same settings" in train_stage(*MEMORY, folder="memory")
    assert "pretraining: training" in train_stage(*MEMORY, "seed=2", folder="other")
    again = train_stage("decoder=feedback", "pretraining={}", folder="again")  # stage and run have the same settings
    assert f"{tmp_path}/plain was trained with the same settings" in again


def test_a_model_is_adapted_to_other_data_with_its_vocabularies(tmp_path, capfd, monkeypatch):
    """The other text has words that the first does not have, and the first run may be deleted later."""

    def train(*arguments, folder):
        arguments = ("size=tiny", "logger=none", *arguments, f"hydra.run.dir={tmp_path}/{folder}")
        return answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)

    def vocabulary(folder):
        return (tmp_path / folder / "source.tokenizer.json").read_text()

    for side, lines in (("source", ["new words pu ma .", "ma new ."]), ("target", ["zys new .", "ryszas ."])):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines * 20))
    files = [f"data.{split}.{side}={tmp_path}/{side}" for split in ("train", "valid") for side in ("source", "target")]
    other = ("data=text", "data.source.language=en", "data.target.language=de", *files, "trainer.max_steps=2")
    assert train(*TINY, "trainer.max_epochs=1", folder="first")[0] == 0
    status, log = train(*other, f"init_from={tmp_path}/first", folder="adapted")
    assert status == 0, log
    assert vocabulary("adapted") == vocabulary("first")
    assert read_summary(tmp_path / "adapted")["initialized_from"]["fresh"] == []
    status, log = train(*other, folder="alone")
    assert vocabulary("alone") != vocabulary("first")
    (tmp_path / "first").rename(tmp_path / "gone")
    longer = "trainer.max_steps=3"
    status, log = train(*other[:-1], longer, f"init_from={tmp_path}/first", folder="adapted")
    assert status == 0, log
    assert read_summary(tmp_path / "adapted")["steps"] == 3
    status, log = train(*other, f"data.vocabulary.run={tmp_path}", folder="wrong")
    assert f"data.vocabulary.run={tmp_path}: has no source.tokenizer.json. Fix: name a trained run" in log


def test_init_from_starts_a_new_run_and_a_resumed_run_ignores_it(tmp_path, capfd, monkeypatch):
    def train(*arguments, folder):
        arguments = (*TINY, *arguments, f"pretraining_folder={tmp_path}/stages", f"hydra.run.dir={tmp_path}/{folder}")
        return answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)

    assert train("trainer.max_epochs=1", folder="first")[0] == 0
    status, log = train("trainer.max_steps=1", f"init_from={tmp_path}/first", folder="second")
    assert status == 0, log
    assert read_summary(tmp_path / "second")["initialized_from"]["fresh"] == []
    assert train("attention=general", f"init_from={tmp_path}/first", folder="third")[0] == 1
    last = f"ckpt_path={tmp_path}/first/checkpoints/last.ckpt"
    status, log = train("trainer.max_epochs=2", last, "init_from=/nowhere", folder="first")
    assert "holds a run with other settings (init_from None → /nowhere)" in log
    status, log = train("trainer.max_epochs=2", last, "init_from=/nowhere", "resume=true", folder="first")
    assert status == 0, log
    status, log = train("init_from=/nowhere", folder="fourth")
    assert "init_from=/nowhere" in log or "run=/nowhere" in log
    other = ("data.vocabulary.size=60", "data.vocabulary.run=null")
    status, log = train(*other, f"init_from={tmp_path}/first", folder="fifth")
    assert f"its source vocabulary is another. Fix: data.vocabulary.run={tmp_path}/first" in log
    status, log = train(f"init_from={tmp_path}/first", "pretraining={without: [memory]}", folder="sixth")
    assert "pretraining= is given too" in log
