"""The evaluation of a run: checks before the search, and the log after training."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, NoFileError
from nmt.evaluation import run_evaluation, test_set
from nmt.evaluation.run_evaluation import Evaluation, evaluate, evaluate_run
from nmt.runs.scoring import read_scoring


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return settings of an evaluation whose search fails the test."""
    data = SimpleNamespace(score={"tokenize": "13a", "lowercase": False})
    run = SimpleNamespace(folder=tmp_path / "run", data=lambda data_overrides: data, search={}, unknown="keep")
    run.checkpoint, run.step = tmp_path / "run" / "checkpoints" / "best.ckpt", 7
    run.default_checkpoint, run.config = "best.ckpt", OmegaConf.create({"data": {}})
    monkeypatch.setattr(run_evaluation, "load_translator", lambda settings: ([run], None))
    monkeypatch.setattr(
        run_evaluation, "read_test_set", lambda data: test_set.TestSet("test", [], [[]], None, 0, "text")
    )
    monkeypatch.setattr(run_evaluation, "translate_test_set", lambda *_: pytest.fail("the search started"))
    return OmegaConf.merge(load_defaults("evaluate"), {"run": str(run.folder)})


@pytest.mark.parametrize("output", ["file", "file/below"])
def test_folder_that_cannot_be_written_is_an_error_before_the_search(settings, tmp_path, output):
    (tmp_path / "file").touch()
    settings.output = str(tmp_path / output)
    with pytest.raises(ConfigurationError, match=f"{output}/test: cannot be written .*. Fix: output=FOLDER"):
        evaluate(settings, [])


def test_override_without_an_effect_is_an_error_before_the_search(settings):
    with pytest.raises(ConfigurationError, match=r"data.max_length=3: has no effect on an evaluation"):
        evaluate(settings, ["data.test=test", "data.max_length=3"])


def test_unknown_tokenizer_is_an_error_before_the_search(settings, monkeypatch):
    data = SimpleNamespace(score={"tokenize": "13b", "lowercase": False})
    run = SimpleNamespace(data=lambda data_overrides: data, search={})
    monkeypatch.setattr(run_evaluation, "load_translator", lambda settings: ([run], None))
    with pytest.raises(ConfigurationError, match=r"tokenize=13b: no such tokenizer. Fix: choose none, zh, 13a"):
        evaluate(settings, [])


def test_missing_file_of_the_test_set_is_explained(settings, tmp_path, monkeypatch):
    def fail(data):
        raise NoFileError("data/test.en")

    monkeypatch.setattr(run_evaluation, "read_test_set", fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoFileError, match=f"data/test.en: no such file .this folder is {tmp_path}"):
        evaluate(settings, [])


def test_evaluation_after_training_uses_search_and_device_of_the_command(monkeypatch, caplog):
    config = {"score_test": True, "score_unknown": "keep", "search": {"beam": 10}, "user_dir": None}
    config["data"] = {"test": "test_2016"}
    config["trainer"] = {"accelerator": "auto", "devices": 1}
    scores = {"bleu": {"score": 39.027}, "chrf": {"score": 61.5}}
    calls = []

    def record_call(settings, data_overrides):
        values = (settings.run, settings.unknown, settings.beam, settings.length_penalty, settings.device)
        calls.append((*values, data_overrides))
        return Evaluation(None, None, {"test": "test_2016", "scores": scores}, Path("a/run/test_2016,beam=10"))

    monkeypatch.setattr(run_evaluation, "evaluate", record_call)
    with caplog.at_level(logging.INFO):
        evaluate_run("a/run", read_scoring(OmegaConf.create(config)))
    changes = {"score_unknown": "copy", "data": {"test": None}}
    for trainer in ({"accelerator": "cpu", "devices": 2}, {"accelerator": "cuda", "devices": [3, 1]}):
        evaluate_run("a/run", read_scoring(OmegaConf.create(config | changes | {"trainer": trainer})))
    assert read_scoring(OmegaConf.create(config | {"score_test": False})) is None
    assert calls == [
        ("a/run", "keep", 10, 1.0, "auto", ["data.test=test_2016"]),
        ("a/run", "copy", 10, 1.0, "cpu", []),
        ("a/run", "copy", 10, 1.0, "cuda:3", []),
    ]
    assert caplog.messages[:1] == ["test_2016: bleu 39.03, chrf 61.50, in a/run/test_2016,beam=10/"]
