"""A model is shared as a folder that opens like its run, and a hostile folder is refused."""

import json
import os
import pickle
import shutil

import pytest
import torch
from commands import answer
from safetensors.torch import load_file, save_file

from nmt import load
from nmt.data.vocabulary import TOKENIZERS
from nmt.errors import UserError
from nmt.runs.folder import WEIGHTS
from nmt.runs.shared_model import MOST_BYTES
from nmt.runs.trained_model import TrainedRun
from nmt.share import export
from nmt.share.export import export_model

NAMES = ["README.md", "config.json", "model.safetensors", "source.tokenizer.json", "target.tokenizer.json"]
LINE = "Gurcu pu ma ma nibi"


def test_an_exported_model_opens_like_its_run(run, exported):
    assert sorted(path.name for path in exported.iterdir()) == NAMES
    assert len({path.stat().st_mode for path in exported.iterdir()}) == 1  # who may read one file may read all
    original, copy = TrainedRun(str(run)), TrainedRun(str(exported))
    assert copy.config == original.config
    assert (copy.step, copy.search) == (7, original.search)
    weights = copy.model.state_dict()
    assert all(value.equal(weights[name]) for name, value in original.model.state_dict().items())
    translations = [str(load(path).translate([LINE], beam=3)[0]) for path in (run, exported)]
    assert translations[0] == translations[1] != ""


@pytest.mark.parametrize("name", ["candidates.npz", "word_table.tsv.gz"])
def test_a_run_with_a_link_to_another_file_is_not_exported(run, tmp_path, name):
    other = shutil.copytree(run, tmp_path / "run")
    (tmp_path / "secret").write_text("key")
    (other / name).symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match=f"{name} is a link. Fix: remove it"):
        export_model(str(other), tmp_path / "shared")
    assert not (tmp_path / "shared").exists()


def test_files_that_belong_to_the_run_are_exported_too(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "run")
    for name in ("candidates.npz", "word_table.tsv.gz"):
        (other / name).write_bytes(name.encode())
    load(other).export(tmp_path / "model")
    for name in ("candidates.npz", "word_table.tsv.gz"):
        assert (tmp_path / "model" / name).read_bytes() == name.encode()


def test_a_failed_export_leaves_no_folder(run, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "write_card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_model(str(run), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_exported_meanwhile_is_kept(run, tmp_path, monkeypatch):
    folder = tmp_path / "model"

    def export_too(*_):
        folder.mkdir()
        (folder / "README.md").write_text("first")
        return "second"

    monkeypatch.setattr(export, "write_card", export_too)
    with pytest.raises(UserError, match=r"export=.*model: is there already\. Fix: name a new folder, or remove it"):
        export_model(str(run), folder)
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["first"]


def test_settings_that_json_cannot_hold_are_refused(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "run")
    path = other / "checkpoints" / "best.ckpt"
    content = torch.load(path, weights_only=True)
    content["nmt"]["config"]["trainer"]["gradient_clip_val"] = float("inf")
    torch.save(content, path)
    with pytest.raises(UserError, match=r"model: .*best\.ckpt has settings or weights that cannot be written to it"):
        export_model(str(other), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_command_exports_and_names_the_folder(run, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "model"
    status, _ = answer("evaluate", f"run={run}", f"export={folder}", capture=capsys, monkeypatch=monkeypatch)
    assert (status, sorted(path.name for path in folder.iterdir())) == (0, NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run={run}", "export={run}"], "export={run}: is there already. Fix: name a new folder, or remove it"),
        (["run={run}", "exprot=there"], "exprot: no such key (did you mean export?)"),
        (["runs=[{run}]", "export=there"], "export=there: which model? Fix: run=FOLDER, one run at a time"),
        (["export=there"], "export=there: which model? Fix: run=FOLDER, one run at a time"),
        (["run={exported}", "export=there"], "export=there: run={exported} is such a folder already. Fix: copy it"),
        (["run={run}", "export=there", "data.test=long"], "data.test=long: has no effect with export="),
        (["run={run}", "export=there", "gold=there"], "gold=, export=: belong to different tasks"),
        (["run={run}", "push=there"], "push=there: not the name of a model on the hub. Fix: push=hf:OWNER/NAME"),
        (["run={run}", "push=hf:a/b@c"], "push=hf:a/b@c: a revision cannot be chosen. Fix: push=hf:a/b"),
        (["run={run}", "export=there", "push=a/b"], "push=a/b: not the name of a model on the hub. Fix: push=hf:"),
        (["run={run}", "export=/proc/there"], "export=/proc/there: cannot be written"),
    ],
)
def test_a_mistake_names_what_to_type(run, exported, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    places = {"run": run, "exported": exported}
    given = [argument.format(**places) for argument in arguments]
    status, stderr = answer("evaluate", *given, capture=capsys, monkeypatch=monkeypatch)
    assert (status, stderr.count("\n")) == (1, 1)
    assert message.format(**places) in stderr
    assert not (tmp_path / "there").exists()


def test_an_ensemble_is_not_exported(run, tmp_path):
    with pytest.raises(UserError, match=r"export\(\): this is an ensemble. Fix: load one run at a time"):
        load(run, run).export(tmp_path / "model")


class Marks:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def put_settings(folder, **changes):
    """Replace parts of the settings; A__B is key B of section A."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    for place, value in changes.items():
        node = content
        *parts, last = place.split("__")
        for part in parts:
            node = node[part]
        node[last] = value
    path.write_text(json.dumps(content))


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def replace_by_link(folder, name):
    target = folder.parent / "outside"
    (folder / name).rename(target)
    (folder / name).symlink_to(target)


def replace_by_pipe(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)


def move_below_snapshots(folder):
    """Such a folder may only link to blobs/, as the cache of the hub does."""
    (folder.parent / "secret").write_text("a secret")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(folder.parent / "secret")
    (folder.parent / "snapshots").mkdir()
    folder.rename(folder.parent / "snapshots" / "model")
    folder.symlink_to(folder.parent / "snapshots" / "model")


FOREIGN = {"_target_": "os.system", "command": "touch MARKER"}
WRITES = {"_target_": "nmt.system.files.write_text", "path": "MARKER", "text": ""}
LARGE = MOST_BYTES["config.json"] + 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / WEIGHTS).write_bytes(pickle.dumps(Marks(f / "MARKER"))), "holds no weights in safetensors"),
        (lambda f: torch.save({"a": torch.ones(2)}, f / WEIGHTS), "holds no weights in safetensors"),
        (lambda f: (f / WEIGHTS).write_bytes(b"\xff" * 7 + b"\x7f{}"), "holds no weights in safetensors"),
        (lambda f: os.truncate(f / WEIGHTS, 3000), "holds no weights in safetensors"),
        (lambda f: put_settings(f, config__model__encoder=FOREIGN), "_target_=os.system: refused, because a run"),
        (lambda f: put_settings(f, config__decoder__readout=WRITES), "_target_=nmt.system.files.write_text: refused"),
        (lambda f: put_settings(f, config__data__test="${oc.env:HOME}"), "data.test=${oc.env:HOME}: refused"),
        (lambda f: put_settings(f, config=7), "model.safetensors: "),
        (lambda f: put_settings(f, step="many"), "global_step='many': is not a number of steps"),
        (lambda f: (f / "config.json").write_text("{"), "is not a model of this project (config.json is not JSON)"),
        (lambda f: (f / "config.json").write_text("{}"), "is not a model of this project (config.json has no config)"),
        (lambda f: (f / "config.json").unlink(), "is not a model of this project (has no config.json)"),
        (lambda f: (f / "source.tokenizer.json").unlink(), "(has no source.tokenizer.json)"),
        (lambda f: (f / "target.tokenizer.json").write_text("{}"), "not a tokenizer.json"),
        (lambda f: shutil.copy(f / TOKENIZERS[0], f / TOKENIZERS[1]), "its target vocabulary has 60"),
        (lambda f: put_settings(f, config__model__target_vocabulary_size=9), "entries, and its model is for 9"),
        (lambda f: put_settings(f, config__size__hidden=40), "configuration, vocabularies and weights do not match"),
        (lambda f: change_weights(f, lambda w: w[next(iter(w))].fill_(torch.nan)), "contains NaN or infinity. Fix: "),
        (lambda f: change_weights(f, dict.popitem), "configuration, vocabularies and weights do not match"),
        (lambda f: replace_by_link(f, WEIGHTS), f"refused, because {WEIGHTS} is a link out of its folder"),
        (lambda f: replace_by_link(f, "config.json"), "refused, because config.json is a link out of its folder"),
        (lambda f: replace_by_link(f, "README.md"), "refused, because README.md is a link out of its folder"),
        (move_below_snapshots, "refused, because README.md is a link out of its folder"),
        (lambda f: (f / "candidates.npz").symlink_to("/etc/passwd"), "refused, because candidates.npz is a link"),
        (lambda f: (f / "word_table.tsv.gz").symlink_to("word_table.tsv.gz"), "refused, because it is not a file"),
        (lambda f: replace_by_pipe(f, "config.json"), "config.json: refused, because it is not a file"),
        (lambda f: os.truncate(f / "config.json", LARGE), f"has {LARGE} bytes, and may have {LARGE - 1}"),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_folder_is_refused(copy, damage, message):
    damage(copy)
    with pytest.raises(UserError) as refused:
        TrainedRun(str(copy))
    assert message in str(refused.value)
    assert str(copy) in str(refused.value)
    assert not list(copy.rglob("MARKER"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../outside", "/outside", ".."])
def test_a_test_set_cannot_lead_out_of_the_folder(copy, name):
    put_settings(copy, config__data__tests={name: {"split": "test", "count": 3}}, config__data__test=name)
    with pytest.raises(UserError, match=r"data\.test='.*': not a valid name for a folder of the run"):
        TrainedRun(str(copy)).data().test_pairs()


def test_other_files_of_a_folder_are_ignored(copy):
    (copy / "conf.py").write_text("raise SystemExit")
    (copy / "pytorch_model.bin").write_bytes(pickle.dumps(Marks(copy / "MARKER")))
    assert TrainedRun(str(copy)).step == 7
    assert not (copy / "MARKER").exists()
