"""Pretraining and finetuning: stages that build upon each other, trained once and found again."""

import json
import subprocess
import sys

import pytest
import torch
from commands import ROOT, answer, command

TINY = ("size=tiny", "logger=none", "dropout=0.0", "data.train.count=120", "data.valid.count=8", "data.batches.size=20")
ONCE = (*TINY, "trainer.max_epochs=1")
MEMORY = ("decoder=feedback", "memory=buffer", "pretraining={without: [memory]}", "fresh=[decoder.memory.*]")


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def weights_of(folder, name="last"):
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


def test_a_chain_of_three_stages_says_what_each_took_over(tmp_path):
    experiments = tmp_path / "mine" / "experiment"
    experiments.mkdir(parents=True)
    (experiments / "first.yaml").write_text(FIRST)
    (experiments / "second.yaml").write_text(SECOND)
    (experiments / "third.yaml").write_text(THIRD)
    folders = (f"pretraining_folder={tmp_path}/stages", f"hydra.run.dir={tmp_path}/run")
    done = command("train", "--config-dir", str(tmp_path / "mine"), "experiment=third", *ONCE, *folders)
    stages = {folder.name.split("-")[0]: folder for folder in (tmp_path / "stages").iterdir() if folder.is_dir()}
    assert set(stages) == {"first", "second"}
    last, middle = (summary_of(folder)["initialized_from"] for folder in (tmp_path / "run", stages["second"]))
    assert last["run"] == str(stages["second"])
    assert middle["run"] == str(stages["first"])
    assert "initialized_from" not in summary_of(stages["first"])
    assert last["fresh"] == [f"decoder.attention.writing.{name}.weight" for name in ("forget", "update")]
    assert "decoder.memory.erase.weight" in last["transferred"]
    assert all(name.startswith("decoder.memory.") for name in middle["fresh"])
    assert "fresh: decoder.attention.writing.forget.weight, decoder.attention.writing.update.weight" in done.stderr


@pytest.mark.slow
def test_two_runs_at_once_train_their_common_stage_once_and_a_third_finds_it(tmp_path):
    shared = (*ONCE, *MEMORY, f"pretraining_folder={tmp_path}/stages")
    runs = [
        subprocess.Popen(
            [sys.executable, ROOT / "train.py", *shared, f"memory.cells={cells}", f"hydra.run.dir={tmp_path}/{cells}"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for cells in (3, 4)
    ]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert sum("pretraining: training" in text for text in said) == 1
    assert sum("waiting for it" in text or "trained already" in text for text in said) == 1
    third = command("train", *shared, "memory.cells=5", f"hydra.run.dir={tmp_path}/5")
    assert "is trained already" in third.stderr
    (stage,) = (folder for folder in (tmp_path / "stages").iterdir() if folder.is_dir())
    assert {summary_of(tmp_path / cells)["initialized_from"]["run"] for cells in "345"} == {str(stage)}


@pytest.mark.slow
def test_a_run_trained_before_serves_as_a_stage_and_other_settings_do_not(tmp_path, capfd, monkeypatch):
    stages = f"pretraining_folder={tmp_path}/stages"

    def said_by(*arguments, folder):
        status, said = answer(
            "train",
            *ONCE,
            stages,
            *arguments,
            f"hydra.run.dir={tmp_path}/{folder}",
            capture=capfd,
            monkeypatch=monkeypatch,
        )
        assert status == 0, said
        return said

    said_by("decoder=feedback", "seed=3", "trainer.max_steps=3", folder="foreign")
    said_by("decoder=feedback", f"ckpt_path={tmp_path}/foreign/checkpoints/last.ckpt", folder="gone_on")
    assert len(list((tmp_path / "stages").glob("*.elsewhere"))) == 1  # of the foreign one alone
    said_by("decoder=feedback", folder="plain")
    assert f"{tmp_path}/plain was trained with the same settings" in said_by(*MEMORY, folder="memory")
    assert "pretraining: training" in said_by(*MEMORY, "seed=2", folder="other")
    again = said_by("decoder=feedback", "pretraining={}", folder="again")  # the whole run first, and once more
    assert f"{tmp_path}/plain was trained with the same settings" in again


def test_weights_of_a_run_start_another_and_a_run_gone_on_with_keeps_its_own(tmp_path, capfd, monkeypatch):
    def train(*arguments, folder):
        arguments = (*TINY, *arguments, f"pretraining_folder={tmp_path}/stages", f"hydra.run.dir={tmp_path}/{folder}")
        return answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)

    assert train("trainer.max_epochs=1", folder="first")[0] == 0
    status, said = train("trainer.max_steps=1", f"init_from={tmp_path}/first", folder="second")
    assert status == 0, said
    assert summary_of(tmp_path / "second")["initialized_from"]["fresh"] == []
    assert train("attention=general", f"init_from={tmp_path}/first", folder="third")[0] == 1
    last = f"ckpt_path={tmp_path}/first/checkpoints/last.ckpt"
    status, said = train("trainer.max_epochs=2", last, "init_from=/nowhere", folder="first")
    assert "holds a run with other settings (init_from None → /nowhere)" in said
    status, said = train("trainer.max_epochs=2", last, "init_from=/nowhere", "resume=true", folder="first")
    assert status == 0, said
    status, said = train("init_from=/nowhere", folder="fourth")
    assert "init_from=/nowhere" in said or "run=/nowhere" in said
    status, said = train("data.vocabulary.size=60", f"init_from={tmp_path}/first", folder="fifth")
    assert "its source vocabulary is another" in said
    status, said = train(f"init_from={tmp_path}/first", "pretraining={without: [memory]}", folder="sixth")
    assert "both say what to start from" in said
