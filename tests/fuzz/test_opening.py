"""Checkpoints and folders of runs that are damaged or made to do harm: one error says so, and nothing is run."""

import copy
import io
import json
import os
import pickle
import re
import zipfile

import pytest
import torch
from commands import ROOT, answer
from compositions import choices, configured, recipes
from fuzz.damage import LEAVES, anything_or_damaged, changed_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nmt.config.allowed_targets import check_references, check_targets
from nmt.data.datamodule import TranslationData
from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.trained_model import TrainedRun
from nmt.web.served_run import describe_parts

SECRET = "c0ffee" + "0" * 34


@pytest.fixture(scope="module")
def whole(trained):
    """The checkpoint without what Lightning keeps."""
    stored = load_checkpoint(trained / "checkpoints" / "last.ckpt")
    return {key: stored[key] for key in ("nmt", "state_dict", "global_step")}


def written(stored, path):
    torch.save(stored, path)
    return str(path)


def crafted(whole, path, place: str, value) -> str:
    """The run's checkpoint with `value` at a place of its configuration."""
    stored = {**whole, "nmt": copy.deepcopy(whole["nmt"])}
    node = stored["nmt"]["config"]
    *parts, last = place.split(".")
    for part in parts:
        node = node.setdefault(part, {})
    node[last] = value
    return written(stored, path)


def tries_bytes(path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        run = TrainedRun(str(path))
    except UserError as error:
        assert str(path) in str(error)
    else:
        assert run.model.training is False  # what was changed did not matter


@pytest.fixture(scope="module")
def packed_small(whole):
    content = io.BytesIO()
    torch.save(whole, content)
    return content.getvalue()


def test_weights_with_nan_are_refused(whole, tmp_path):
    name = next(name for name in whole["state_dict"] if name.endswith("embedding.weight"))
    weights = {**whole["state_dict"], name: torch.full_like(whole["state_dict"][name], torch.nan)}
    path = written({**whole, "state_dict": weights}, tmp_path / "a.ckpt")
    message = f"{path}: {name.removeprefix('model.')} contains NaN. Fix: take another checkpoint"
    with pytest.raises(UserError, match=re.escape(message)):
        TrainedRun(path)


@given(st.data())
def test_damaged_checkpoints(packed_small, tmp_path, data):
    tries_bytes(tmp_path / "a.ckpt", data.draw(anything_or_damaged(packed_small)))


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(st.data())
def test_many_damaged_checkpoints(packed_small, tmp_path, data):
    tries_bytes(tmp_path / "a.ckpt", data.draw(anything_or_damaged(packed_small)))


def repacked(packed: bytes, change) -> bytes:
    """With other pickled bytes and checksums that are right."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(part) if name.endswith("data.pkl") else part)
    return content.getvalue()


@given(st.data())
def test_damaged_pickles_with_right_checksums(packed_small, tmp_path, data):
    def change(part):
        return data.draw(anything_or_damaged(part))

    tries_bytes(tmp_path / "a.ckpt", repacked(packed_small, change))


# Sizes stay small: a model of any size that is asked for is made.
SMALL = LEAVES.filter(lambda leaf: not isinstance(leaf, int | float) or abs(leaf) < 100)


def tries_other_content(whole, tmp_path, data) -> None:
    tree = {"config": {key: whole["nmt"]["config"][key] for key in ("model", "data", "encoder", "decoder", "size")}}
    tree = tree | {"vocabularies": whole["nmt"]["vocabularies"]}
    changed = data.draw(changed_trees(tree, SMALL))
    if isinstance(changed, dict) and isinstance(changed.get("config"), dict):
        changed = changed | {"config": whole["nmt"]["config"] | changed["config"]}
    path = tmp_path / "a.ckpt"
    try:
        run = TrainedRun(written({**whole, "nmt": changed}, path))
    except UserError as error:
        assert str(path) in str(error)
        return
    assert run.languages.source.vocabulary.encode(["ma"])[0].tolist()


@given(st.data())
def test_checkpoints_that_hold_something_else(whole, tmp_path, data):
    tries_other_content(whole, tmp_path, data)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(st.data())
def test_many_checkpoints_that_hold_something_else(whole, tmp_path, data):
    tries_other_content(whole, tmp_path, data)


@given(st.sampled_from(("nmt", "state_dict", "global_step")), LEAVES)
def test_checkpoints_with_parts_of_another_kind(whole, tmp_path, part, value):
    path = tmp_path / "a.ckpt"
    if part == "global_step" and isinstance(value, int):
        assert TrainedRun(written({**whole, part: value}, path)).step == value
        return
    with pytest.raises(UserError, match=r"a\.ckpt: "):
        TrainedRun(written({**whole, part: value}, path))


@pytest.mark.parametrize("stored", [None, [], 7, "nmt", {"nmt": None}, {}], ids=str)
def test_a_checkpoint_of_something_else_is_none_of_ours(tmp_path, stored):
    with pytest.raises(UserError, match=r"a\.ckpt: "):
        TrainedRun(written(stored, tmp_path / "a.ckpt"))


class Marks:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_in_a_checkpoint_is_not_unpickled(whole, packed_small, tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "a.ckpt"
    torch.save({**whole, "more": Marks(marker)}, path)
    with pytest.raises(UserError, match=r"a\.ckpt: cannot be loaded as a checkpoint"):
        TrainedRun(str(path))
    for content in (pickle.dumps(Marks(marker)), repacked(packed_small, lambda _: pickle.dumps(Marks(marker)))):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"a\.ckpt: cannot be loaded as a checkpoint"):
            TrainedRun(str(path))
    assert not marker.exists()


RUNS = {
    "os.system": {"command": "touch MARKER"},
    "posix.system": {"command": "touch MARKER"},
    "subprocess.run": {"args": ["touch", "MARKER"]},
    "subprocess.Popen": {"_args_": [["touch", "MARKER"]]},
    "builtins.eval": {"_args_": ["open('MARKER', 'w')"]},
    "builtins.open": {"file": "MARKER", "mode": "w"},
    "pathlib.Path.touch": {"self": "MARKER"},
    "hydra.utils.call": {"config": {"_target_": "builtins.open", "file": "MARKER", "mode": "w"}},
    "nmt.system.files.write_text": {"path": "MARKER", "text": ""},
    "nmt.runs.job.subprocess.run": {"args": ["touch", "MARKER"]},
    "nmt.data.lexical_table.subprocess.run": {"args": ["touch", "MARKER"]},
    "nmt.data.lexical_table.os.system": {"command": "touch MARKER"},
    "nmt.data.text_files.read_lines.__globals__.get": {"_args_": ["gzip"]},
    "nmt.data.text_files.read_lines.__builtins__.get": {"_args_": ["eval"]},
    "nmt.data.parallel_text.FilePairs.__init__.__globals__.copy": {},
    "nmt.data.parallel_text.FilePairs.__subclasses__": {},
    "nmt.data.download.main": {"arguments": ["multi30k"]},
    "nmt.data.corpus_cache._write_entry": {"folder": "MARKER"},
    "nmt.model.encoder.os.system": {"command": "touch MARKER"},
    "nmt.model.encoder.torch.hub.load": {"repo_or_dir": "x/y", "model": "z"},
    "nmt.model.no_such_thing": {},
    "nmt.model.": {},
    "torch.nn.init.torch.load": {"f": "MARKER", "weights_only": False},
    "torch.nn.init.warnings.sys.exit": {},
    "torch.nn.initialise": {},
}


PLACES = (("model.encoder", "data.reader"), ("decoder.readout", "data.batches"), ("model.more", "data.more"))


def nested(node, how: str):
    return {"plain": node, "in a list": [[{"deep": [node]}]], "partial": {**node, "_partial_": True}}[how]


@pytest.mark.parametrize("how", ["plain", "in a list", "partial"])
@pytest.mark.parametrize("target", RUNS)
def test_a_stored_configuration_runs_nothing(whole, tmp_path, target, how):
    marker = tmp_path / "marker"
    arguments = json.loads(json.dumps(RUNS[target]).replace("MARKER", str(marker)))
    node = nested({"_target_": target, **arguments}, how)
    of_model, of_data = PLACES[len(target) % len(PLACES)]
    with pytest.raises(UserError, match=r"_target_=.*: refused, because a run may only name nmt\.model\.") as refused:
        TrainedRun(crafted(whole, tmp_path / "a.ckpt", of_model, node))
    assert f"_target_={target}: refused" in str(refused.value)
    assert "a.ckpt" in str(refused.value)
    run = TrainedRun(crafted(whole, tmp_path / "a.ckpt", of_data, node))  # which does not build the data yet
    with pytest.raises(UserError, match=r"data\..*_target_=.*: refused") as refused:
        run.data()
    assert f"_target_={target}: refused" in str(refused.value)
    assert not marker.exists()


def test_what_is_not_read_is_not_run(whole, tmp_path):
    """Callbacks, loggers, trainer of a stored configuration are for looking at."""
    marker = tmp_path / "marker"
    node = {"_target_": "os.system", "command": f"touch {marker}"}
    for place in ("callbacks.more", "logger.wandb", "trainer", "optimizer", "hydra"):
        TrainedRun(crafted(whole, tmp_path / "a.ckpt", place, node)).data()
    assert not marker.exists()


def test_every_target_of_the_models_and_data_there_are_is_trusted():
    named = {
        name
        for path in (ROOT / "conf").rglob("*.yaml")
        for name in re.findall(r"_target_: ([\w.]+)", path.read_text())
        if name.startswith(("nmt.model.", "nmt.data.", "torch.nn.init."))
    }
    assert len(named) > 35
    for name in named:
        check_targets({"_target_": name})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"""Mine."""\n\nclass Mine(:\n', "line 3: SyntaxError: invalid syntax"),
        ("import torch\nimport not_there\n", "line 2: ModuleNotFoundError: No module named 'not_there'"),
        ("import torch\n\n\ntorch.not_there\n", "line 4: AttributeError: module 'torch' has no attribute 'not_there'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(tmp_path, monkeypatch, text, error):
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.setattr("nmt.model.__path__", [str(tmp_path)])
    monkeypatch.setattr("nmt.config.allowed_targets.PACKAGE", str(tmp_path))
    with pytest.raises(UserError) as raised:
        check_targets({"_target_": "nmt.model.mine.Mine"})
    assert str(raised.value) == f"model._target_=nmt.model.mine.Mine: {tmp_path}/mine.py, {error}"


@pytest.mark.parametrize(
    "override", [*(f"data={one}" for one in choices("data")), *(f"experiment={one}" for one in recipes())]
)
def test_no_configuration_there_is_refers_to_anything_else(override):
    check_references(OmegaConf.to_container(configured(override)))


def test_a_run_that_could_not_be_opened_is_not_trained(tmp_path, capsys, monkeypatch):
    arguments = ("size=tiny", "data.test=${oc.env:WANDB_API_KEY}", f"hydra.run.dir={tmp_path / 'run'}")
    status, said = answer("train", *arguments, capture=capsys, monkeypatch=monkeypatch, WANDB_API_KEY=SECRET)
    assert status == 1
    assert "data.test=${oc.env:WANDB_API_KEY}: refused, because " in said
    assert "write the value itself" in said
    assert SECRET not in said
    assert not (tmp_path / "run" / "checkpoints").exists()


REFERENCES = (
    "${oc.env:WANDB_API_KEY}",
    "${oc.env:WANDB_API_KEY,x}",
    "${ oc.env:WANDB_API_KEY}",
    "${oc.env:NMT_DATA_OF_MINE}",
    "${oc.env:${name}}",
    "${default:${oc.env:WANDB_API_KEY},x}",
    "${oc.decode:'${oc.env:WANDB_API_KEY}'}",
    "${oc.create:'{a: 1}'}",
    "${oc.select:logger}",
    "$${default:null,'{oc.env:WANDB_API_KEY}'}",
    "\\${oc.env:WANDB_API_KEY}",
    "${hydra:job.name}",
    "${now:%S}",
    "${run_id:}",
    "${stolen}",
    "${..stolen}",
    "${stolen_too.deep[0]}",
)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("place", ["data.source.language", "data.test", "model.embedding_size", "data.tests"])
def test_a_stored_setting_reads_nothing_of_the_environment(whole, tmp_path, monkeypatch, reference, place):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("NMT_DATA_OF_MINE", SECRET)
    stored = {**whole, "nmt": copy.deepcopy(whole["nmt"])}
    config = stored["nmt"]["config"]
    config |= {"name": "WANDB_API_KEY", "stolen": "${oc.env:WANDB_API_KEY}", "stolen_too": {"deep": ["${stolen}"]}}
    path = crafted(stored, tmp_path / "a.ckpt", place, {"x": [reference]} if place == "data.tests" else reference)
    with pytest.raises(UserError, match="refused") as refused:
        TrainedRun(path).data()
    assert SECRET not in str(refused.value)


def test_where_data_lie_may_be_said_by_the_environment(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NMT_DATA", str(tmp_path / "data"))
    run = TrainedRun(written(whole, tmp_path / "a.ckpt"))
    data = run.data()
    assert isinstance(data, TranslationData)
    assert (str(data.cache), run.config.data.dir) == (str(tmp_path / "cache"), str(tmp_path / "data"))
    monkeypatch.setenv("MINE", "mine")  # whoever opens a run may read his own
    assert str(run.data(["data.cache=${oc.env:MINE}"]).cache) == "mine"


def test_what_is_computed_is_not_computed_again(whole, tmp_path, monkeypatch):
    """A value put together so that it would be a reference if it were read once more."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    place = "data.source.language"
    path = crafted(whole, tmp_path / "a.ckpt", place, "$${default:null,'{oc.env:WANDB_API_KEY}'}")
    with pytest.raises(UserError, match="refused") as refused:
        print(TrainedRun(path).languages.source.preprocessing, TrainedRun(path).data())
    assert SECRET not in str(refused.value)


def test_choices_are_shown_as_they_stand(trained, whole, tmp_path, monkeypatch):
    """The page of translations shows what Hydra wrote; a reference in it stays one."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    written(whole, folder / "checkpoints" / "last.ckpt")
    (folder / ".hydra").mkdir()
    chosen = {"attention": "${oc.env:WANDB_API_KEY}", "encoder": "gru"}
    (folder / ".hydra" / "hydra.yaml").write_text(json.dumps({"hydra": {"runtime": {"choices": chosen}}}))
    assert describe_parts(TrainedRun(str(folder))) == {"encoder": "gru", "attention": "${oc.env:WANDB_API_KEY}"}
    (folder / ".hydra" / "hydra.yaml").write_text("!!python/object/apply:os.system ['true']")
    assert describe_parts(TrainedRun(str(folder)))["encoder"] == "GRUEncoder"  # the stored configuration says


@pytest.mark.parametrize("name", ["../outside", "/outside", "..", "a/b", "a\\b", "a\0b"])
def test_a_test_set_is_called_no_path(whole, tmp_path, name):
    """Its results are written to a folder of that name."""
    path = crafted(whole, tmp_path / "a.ckpt", "data.tests", {name: {"split": "test", "count": 3}})
    with pytest.raises(UserError, match=r"data\.test='.*': not a valid name for a folder of the run"):
        TrainedRun(path).data([]).test_pairs(name)
    stored = load_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(UserError, match=r"data\.test='.*': not a valid name for a folder of the run"):
        TrainedRun(crafted(stored, tmp_path / "a.ckpt", "data.test", name)).data().test_pairs()


@pytest.mark.parametrize(
    "override",
    [
        "+callbacks.more._target_=subprocess.Popen",
        "+callbacks.more={_target_: os.system, command: touch MARKER}",
        "~logger.wandb._target_=os.system",
        "hydra/launcher=evil",
        "+hydra.job.env_set.X=y",
        "hydra.run.dir=/elsewhere",
        "--config-dir=/elsewhere",
        "-m",
        "name=${oc.env:WANDB_API_KEY}",
        "name=${oc.decode:x}",
        "logger.csv.path=MARKER",
        "logger={csv: {_partial_: true, path: MARKER}}",
        "callbacks.last.dirpath=MARKER",
        "++callbacks.checkpoint.dirpath=MARKER",
        "pretraining_folder=MARKER",
        "pretraining={overrides: [logger.csv.path=MARKER]}",
        """+pretraining={experiment: demo, overrides: ['name="/elsewhere"']}""",
        '++pretraining.overrides=["+callbacks.last.dirpath=MARKER"]',
        "data.cache=MARKER",
        "name=../../elsewhere",
        "name='/elsewhere'",
    ],
)
def test_repeating_a_foreign_run_runs_nothing(tmp_path, capsys, monkeypatch, override):
    marker = tmp_path / "marker"
    (tmp_path / ".hydra").mkdir()
    written_override = override.replace("MARKER", str(marker))
    (tmp_path / ".hydra" / "overrides.yaml").write_text(json.dumps(["seed=1", written_override]))
    status, said = answer("train", f"run={tmp_path}", capture=capsys, monkeypatch=monkeypatch, WANDB_API_KEY=SECRET)
    assert status == 1
    assert f"run={tmp_path}: refused to repeat {written_override}" in said
    assert SECRET not in said
    assert not marker.exists()


@pytest.mark.parametrize("content", ["!!python/name:os.system", "[", "a: 1", "7", "\xff", "&a [*a]"])
def test_overrides_that_are_none_are_told(tmp_path, capsys, monkeypatch, content):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_bytes(content.encode("latin-1"))
    status, said = answer("train", f"run={tmp_path}", capture=capsys, monkeypatch=monkeypatch)
    assert status == 1
    assert f"run={tmp_path}: its .hydra/overrides.yaml" in said or "refused to repeat" in said
