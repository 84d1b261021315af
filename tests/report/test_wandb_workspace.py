"""The view of a sweep in W&B, as the object that would be sent."""

import json

import pytest

from nmt.errors import UserError
from nmt.report.wandb_workspace import build_workspace, find_swept_keys, main

JOBS = [["attention=coverage", "seed=1", "dropout=0.1"], ["attention=dot", "seed=2", "dropout=0.1"]]


def write_sweep(folder, jobs):
    (folder / "sweep.json").write_text(json.dumps({"jobs": [{"overrides": job} for job in jobs]}))
    return folder


def test_keys_of_a_sweep_are_those_in_which_its_jobs_differ(tmp_path):
    jobs = [[*job, f"size.hidden={number}", f"threads={number}"] for number, job in enumerate(JOBS)]
    assert find_swept_keys(write_sweep(tmp_path, jobs)) == ["choices.attention", "seed", "size.hidden"]
    assert find_swept_keys(write_sweep(tmp_path, [])) == []


@pytest.mark.parametrize("content", [None, "{", "[]", '{"jobs": [{}]}', '{"jobs": 7}'])
def test_folder_without_a_sweep_is_refused(tmp_path, content):
    if content:
        (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(UserError, match=r"has no readable sweep.json. Fix: name the folder of a sweep"):
        find_swept_keys(tmp_path)


@pytest.mark.parametrize("arguments", [[], ["multirun/mine"], ["multirun/mine", "entity"], ["a", "b/c", "d"]])
def test_incomplete_command_shows_its_usage(arguments):
    with pytest.raises(SystemExit, match=r"usage: python -m nmt.report.wandb_workspace multirun/NAME ENTITY/PROJECT"):
        main(arguments)


@pytest.mark.slow
def test_view_groups_runs_over_seeds_and_shows_curves_settings_and_alignments():
    pytest.importorskip("wandb_workspaces")
    model = build_workspace("mine", ["choices.attention", "seed"], "me", "nmt")._to_model()
    section = json.loads(model.model_dump_json(by_alias=True))["spec"]["section"]
    (runs,) = section["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["choices.value.attention"]
    assert "group" in json.dumps(runs["filters"])
    assert "mine" in json.dumps(runs["filters"])
    assert runs["sort"]["keys"] == [{"key": {"section": "summary", "name": "valid/bleu.max"}, "ascending": False}]
    assert list(runs["runFeed"]["columnPinned"])[:3] == [
        "run:displayName",
        "config:choices.value.attention",
        "config:seed.value",
    ]
    curves, settings, alignments = section["panelBankConfig"]["sections"][:3]
    assert curves["panels"][0]["config"]["metrics"] == ["valid/bleu"]
    (coordinates,) = settings["panels"]
    axes = [column["accessor"] for column in coordinates["config"]["columns"]]
    assert axes == ["config:choices.value.attention", "config:seed.value", "summary:valid/bleu.max"]
    assert alignments["panels"][0]["config"]["mediaKeys"][0] == "valid/alignment_0"
