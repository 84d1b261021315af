"""train.py run=FOLDER repeats a run, but not the sweep whose job it was."""

import json
import re
from pathlib import Path

import pytest

from nmt.data.named_files import named_here, remember
from nmt.errors import UserError
from nmt.runs.stored_overrides import find_typed, repeat_run


def test_a_job_of_a_table_is_repeated_as_a_single_run(tmp_path):
    folder = tmp_path / "run"
    (folder / ".hydra").mkdir(parents=True)
    overrides = ["experiment=tu2016/groundhog", "size=small", "seed=2"]
    of_the_sweep = ["+table=tu2016_table1", "hparams_search=optuna"]
    (folder / ".hydra/overrides.yaml").write_text(json.dumps([overrides[0], *of_the_sweep, *overrides[1:]]))
    assert repeat_run([f"run={folder}", "seed=3"]) == [*overrides, f"repeats='{folder}'", "seed=3"]


def test_a_plain_folder_of_a_run_is_repeated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=2" / ".hydra").mkdir(parents=True)
    (tmp_path / "seed=2" / ".hydra/overrides.yaml").write_text('["dropout=0.1"]')
    assert repeat_run(["./seed=2", "seed=3"]) == ["dropout=0.1", f"repeats='{tmp_path / 'seed=2'}'", "seed=3"]
    for others in (["seed=2"], [".", "attention/window=local_p"]):  # an override, and a folder without a run
        assert repeat_run(others) == others


@pytest.mark.parametrize("name", ["run #2", "007", "1e3", "yes"])
def test_a_folder_of_any_name_can_be_repeated(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name / ".hydra").mkdir(parents=True)
    (tmp_path / name / ".hydra/overrides.yaml").write_text('["seed=2"]')
    assert repeat_run([f"run={name}"]) == repeat_run([f"run='{name}'"]) == ["seed=2", f"repeats='{tmp_path / name}'"]


@pytest.mark.parametrize(
    "override",
    [
        "experiment=tu2016/groundhog",
        "experiment=null",
        "attention/score=dot",
        "~attention/window",
        "~callbacks.early_stopping",
        "+attention/coverage=[tanh,gru]",
        "model.encoder={layers: 2}",
        "decoder.readout.size='${twice:${size.hidden}}'",
        "data.dir=${oc.env:NMT_DATA,data}",
        "data.test='it is, \"quoted\"'",
        "data.train.source='/a/path/../with spaces/=.txt'",
        "validation=${search}",
        "logger=none",
        "~logger.wandb",
        "logger.wandb.project=mine",
        "logger.wandb.artifacts=checkpoint",
        "name=mine/first",
        "fresh=[decoder.memory.*]",
        "init_from=null",
        "pretraining={without: [memory], overrides: ['seed=2', '~attention/window', 'data.max_length=9']}",
    ],
)
def test_harmless_overrides_are_repeated(tmp_path, override):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text(json.dumps([override]))
    assert repeat_run([f"run={tmp_path}"])[0] == override


@pytest.mark.parametrize(
    "stored",
    [
        "init_from='/a/run,a=b'",
        "init_from=hf:somebody/model",
        "ckpt_path=/a/run",
        "vectors.source=/a/file.vec",
        "data.vocabulary.run=/a/run",
        "pretraining={overrides: [init_from=/a/run]}",
    ],
)
def test_a_repeated_run_takes_other_runs_and_files_only_if_the_user_has_named_them(tmp_path, monkeypatch, stored):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text(json.dumps([stored]))
    with pytest.raises(UserError, match=f"refused to repeat {re.escape(stored)}"):
        repeat_run([f"run={tmp_path}", "seed=2"])
    key, _, place = stored.partition("=")
    assert repeat_run([f"run={tmp_path}", f"{key}=other"])[-1] == f"{key}=other"
    if key != "pretraining":
        place = place.strip("'")
        remember([place if place.startswith("hf:") else Path(place)])
        assert repeat_run([f"run={tmp_path}"])[0] == stored
    named_here.clear()


def test_an_override_of_a_sweep_counts_as_stored_however_hydra_writes_it(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text(json.dumps(["data.train.source=[ /secret/text ]", "seed=1"]))
    assert find_typed(str(tmp_path), ["data.train.source=[/secret/text]", "seed=2"]) == {"seed": "2"}


@pytest.mark.parametrize("stored", ["user_dir='/a b'", "++user_dir=/elsewhere", "+user_dir=x", "~user_dir"])
def test_the_folder_of_the_users_code_is_never_that_of_the_repeated_run(tmp_path, stored):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text(json.dumps(["attention=mine", stored]))
    message = re.escape(f"run={tmp_path}: was trained with {stored}. Fix: add user_dir=FOLDER if you trust it")
    with pytest.raises(UserError, match=message):
        repeat_run([f"run={tmp_path}"])
    repeated = repeat_run([f"run={tmp_path}", "user_dir=project"])
    assert repeated == ["attention=mine", f"repeats='{tmp_path}'", "user_dir=project"]


@pytest.mark.parametrize(
    "stored",
    ["pretraining={overrides: [user_dir=x]}", "++pretraining.overrides=[+user_dir=x]", "user_dir.x=1", "user_dir@x=y"],
)
def test_no_other_override_of_a_repeated_run_names_a_folder_of_code(tmp_path, stored):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text(json.dumps([stored]))
    with pytest.raises(UserError, match=f"refused to repeat {re.escape(stored)}"):
        repeat_run([f"run={tmp_path}", "user_dir=project"])
