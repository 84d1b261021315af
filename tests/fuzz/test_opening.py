"""Damaged and hostile checkpoints and run folders raise one error and run no code."""

import copy
import io
import json
import os
import pickle
import re
import shutil
import sys
import zipfile

import pytest
import torch
from commands import answer
from compositions import choices, configured, recipes
from fuzz.damage import LEAVES, anything_or_damaged, changed_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nmt.config.allowed_targets import check_references, check_targets
from nmt.config.installation import CONF_DIR
from nmt.data.datamodule import TranslationData
from nmt.errors import UserError, user_folders
from nmt.launch.process_launcher import _has_other_settings
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.resume import find_earlier_training
from nmt.runs.trained_model import TrainedRun
from nmt.training.experiment import _warn_of_changes
from nmt.web.served_run import describe_parts

SECRET = "c0ffee" + "0" * 34


@pytest.fixture(scope="module")
def checkpoint(trained):
    """Return the checkpoint without Lightning's entries."""
    stored = load_checkpoint(trained / "checkpoints" / "last.ckpt")
    return {key: stored[key] for key in ("nmt", "state_dict", "global_step")}


def write_checkpoint(stored, path):
    torch.save(stored, path)
    return str(path)


def write_crafted_checkpoint(checkpoint, path, place: str, value) -> str:
    """Write the run's checkpoint with `value` at a place of its configuration."""
    stored = {**checkpoint, "nmt": copy.deepcopy(checkpoint["nmt"])}
    node = stored["nmt"]["config"]
    *parts, last = place.split(".")
    for part in parts:
        node = node.setdefault(part, {})
    node[last] = value
    return write_checkpoint(stored, path)


def assert_opened_or_refused(path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        run = TrainedRun(str(path))
    except UserError as error:
        assert str(path) in str(error)
    else:
        assert run.model.training is False  # the damage has no effect


@pytest.fixture(scope="module")
def checkpoint_bytes(checkpoint):
    content = io.BytesIO()
    torch.save(checkpoint, content)
    return content.getvalue()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_refused(checkpoint, tmp_path, value):
    name = next(name for name in checkpoint["state_dict"] if name.endswith("embedding.weight"))
    weights = {**checkpoint["state_dict"], name: torch.full_like(checkpoint["state_dict"][name], value)}
    path = write_checkpoint({**checkpoint, "state_dict": weights}, tmp_path / "a.ckpt")
    message = f"{path}: {name.removeprefix('model.')} contains NaN or infinity. Fix: take another checkpoint"
    with pytest.raises(UserError, match=re.escape(message)):
        TrainedRun(path)


@given(st.data())
def test_a_damaged_checkpoint_is_opened_or_refused(checkpoint_bytes, tmp_path, data):
    assert_opened_or_refused(tmp_path / "a.ckpt", data.draw(anything_or_damaged(checkpoint_bytes)))


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(st.data())
def test_many_damaged_checkpoints_are_opened_or_refused(checkpoint_bytes, tmp_path, data):
    assert_opened_or_refused(tmp_path / "a.ckpt", data.draw(anything_or_damaged(checkpoint_bytes)))


def replace_pickle(packed: bytes, change) -> bytes:
    """Replace the pickled bytes of a checkpoint and keep its checksums valid."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(part) if name.endswith("data.pkl") else part)
    return content.getvalue()


@given(st.data())
def test_a_damaged_pickle_with_valid_checksums_is_opened_or_refused(checkpoint_bytes, tmp_path, data):
    def change(part):
        return data.draw(anything_or_damaged(part))

    assert_opened_or_refused(tmp_path / "a.ckpt", replace_pickle(checkpoint_bytes, change))


# Keep sizes small, because a model of any requested size is built.
SMALL = LEAVES.filter(lambda leaf: not isinstance(leaf, int | float) or abs(leaf) < 100)


def assert_changed_content_opened_or_refused(checkpoint, tmp_path, data) -> None:
    tree = {
        "config": {key: checkpoint["nmt"]["config"][key] for key in ("model", "data", "encoder", "decoder", "size")}
    }
    tree = tree | {"vocabularies": checkpoint["nmt"]["vocabularies"]}
    changed = data.draw(changed_trees(tree, SMALL))
    if isinstance(changed, dict) and isinstance(changed.get("config"), dict):
        changed = changed | {"config": checkpoint["nmt"]["config"] | changed["config"]}
    path = tmp_path / "a.ckpt"
    try:
        run = TrainedRun(write_checkpoint({**checkpoint, "nmt": changed}, path))
    except UserError as error:
        assert str(path) in str(error)
        return
    assert run.languages.source.vocabulary.encode(["ma"])[0].tolist()


@given(st.data())
def test_a_checkpoint_with_changed_content_is_opened_or_refused(checkpoint, tmp_path, data):
    assert_changed_content_opened_or_refused(checkpoint, tmp_path, data)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(st.data())
def test_many_checkpoints_with_changed_content_are_opened_or_refused(checkpoint, tmp_path, data):
    assert_changed_content_opened_or_refused(checkpoint, tmp_path, data)


@pytest.mark.parametrize("rate", [torch.nan, torch.inf, -1, 1])
@pytest.mark.parametrize("key", ["dropout", "model.embedding_dropout"])
def test_a_checkpoint_with_an_impossible_rate_is_refused(checkpoint, tmp_path, key, rate):
    with pytest.raises(UserError, match=rf"a\.ckpt: {key}={rate}: must be at least 0, and below 1"):
        TrainedRun(write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", key, rate))


def test_a_setting_of_another_type_is_named(checkpoint, tmp_path):
    path = write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", "dropout", "half")
    with pytest.raises(UserError, match=r"a\.ckpt: configuration, .* do not match \(encoder: "):
        TrainedRun(path)


def test_a_pipe_as_a_best_checkpoint_is_refused_and_not_passed_over(trained, tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    shutil.copy(trained / "checkpoints" / "last.ckpt", folder)
    os.mkfifo(folder / "best.ckpt")
    with pytest.raises(UserError, match=r"best\.ckpt: cannot be loaded as a checkpoint"):
        TrainedRun(str(tmp_path))


@given(st.sampled_from(("nmt", "state_dict", "global_step")), LEAVES)
def test_a_checkpoint_with_a_part_of_another_type_is_refused(checkpoint, tmp_path, part, value):
    path = tmp_path / "a.ckpt"
    if part == "global_step" and isinstance(value, int):
        assert TrainedRun(write_checkpoint({**checkpoint, part: value}, path)).step == value
        return
    with pytest.raises(UserError, match=r"a\.ckpt: "):
        TrainedRun(write_checkpoint({**checkpoint, part: value}, path))


@pytest.mark.parametrize("stored", [None, [], 7, "nmt", {"nmt": None}, {}], ids=str)
def test_a_checkpoint_of_another_program_is_refused(tmp_path, stored):
    with pytest.raises(UserError, match=r"a\.ckpt: "):
        TrainedRun(write_checkpoint(stored, tmp_path / "a.ckpt"))


class Marks:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_in_a_checkpoint_is_not_unpickled(checkpoint, checkpoint_bytes, tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "a.ckpt"
    torch.save({**checkpoint, "more": Marks(marker)}, path)
    with pytest.raises(UserError, match=r"a\.ckpt: cannot be loaded as a checkpoint"):
        TrainedRun(str(path))
    for content in (
        pickle.dumps(Marks(marker)),
        replace_pickle(checkpoint_bytes, lambda _: pickle.dumps(Marks(marker))),
    ):
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
    "nmt.data.aligner.subprocess.run": {"args": ["touch", "MARKER"]},
    "nmt.data.aligner.os.system": {"command": "touch MARKER"},
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
    "my_parts.subprocess.run": {"args": ["touch", "MARKER"]},
    "my_parts.open": {"file": "MARKER", "mode": "w"},
}


@pytest.fixture(autouse=True)
def _forget_users_code(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    user_folders.clear()


def write_users_code(folder) -> str:
    """Write a folder for user_dir=, and a stored configuration could name what its files import."""
    (folder / "project").mkdir()
    (folder / "project" / "my_parts.py").write_text("import os, subprocess\nfrom builtins import eval, open\n")
    return str(folder / "project")


PLACES = (("model.encoder", "data.reader"), ("decoder.readout", "data.batches"), ("model.more", "data.more"))


def nest(node, how: str):
    return {"plain": node, "in a list": [[{"deep": [node]}]], "partial": {**node, "_partial_": True}}[how]


@pytest.mark.parametrize("how", ["plain", "in a list", "partial"])
@pytest.mark.parametrize("target", RUNS)
def test_a_stored_configuration_runs_no_foreign_code(checkpoint, tmp_path, target, how):
    marker = tmp_path / "marker"
    arguments = json.loads(json.dumps(RUNS[target]).replace("MARKER", str(marker)))
    node = nest({"_target_": target, **arguments}, how)
    of_model, of_data = PLACES[len(target) % len(PLACES)]
    with pytest.raises(
        UserError, match=r"_target_=.*: refused, because (a run may only name nmt\.model\.|there is no such class)"
    ) as refused:
        TrainedRun(write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", of_model, node))
    assert f"_target_={target}: refused" in str(refused.value)
    assert "a.ckpt" in str(refused.value)
    with pytest.raises(UserError, match=r"_target_=.*: refused"):  # a folder of the user's code changes nothing
        TrainedRun(str(tmp_path / "a.ckpt"), write_users_code(tmp_path))
    run = TrainedRun(
        write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", of_data, node)
    )  # opening a run does not build its data
    with pytest.raises(UserError, match=r"data\..*_target_=.*: refused") as refused:
        run.data()
    assert f"_target_={target}: refused" in str(refused.value)
    assert not marker.exists()


def test_unused_parts_of_a_stored_configuration_are_not_run(checkpoint, tmp_path):
    """Callbacks, loggers and trainer of a stored configuration are only displayed."""
    marker = tmp_path / "marker"
    node = {"_target_": "os.system", "command": f"touch {marker}"}
    for place in ("callbacks.more", "logger.wandb", "trainer", "optimizer", "hydra"):
        TrainedRun(write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", place, node)).data()
    assert not marker.exists()


def test_every_target_in_conf_is_allowed():
    named = {
        name
        for path in CONF_DIR.rglob("*.yaml")
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
    monkeypatch.setattr("nmt.errors.PACKAGE", str(tmp_path))
    with pytest.raises(UserError) as raised:
        check_targets({"_target_": "nmt.model.mine.Mine"})
    assert str(raised.value) == f"model._target_=nmt.model.mine.Mine: {tmp_path}/mine.py, {error}"


@pytest.mark.parametrize(
    "override", [*(f"data={one}" for one in choices("data")), *(f"experiment={one}" for one in recipes())]
)
def test_every_configuration_has_only_allowed_references(override):
    check_references(OmegaConf.to_container(configured(override)))


def test_a_run_with_a_refused_reference_is_not_trained(tmp_path, capsys, monkeypatch):
    arguments = ("size=tiny", "data.test=${oc.env:WANDB_API_KEY}", f"hydra.run.dir={tmp_path / 'run'}")
    status, stderr = answer("train", *arguments, capture=capsys, monkeypatch=monkeypatch, WANDB_API_KEY=SECRET)
    assert status == 1
    assert "data.test=${oc.env:WANDB_API_KEY}: refused, because " in stderr
    assert "write the value itself" in stderr
    assert SECRET not in stderr
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
@pytest.mark.parametrize(
    "place", ["data.source.language", "data.test", "model.embedding_size", "data.tests", "search.normalization"]
)
def test_a_stored_setting_cannot_read_the_environment(checkpoint, tmp_path, monkeypatch, reference, place):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("NMT_DATA_OF_MINE", SECRET)
    stored = {**checkpoint, "nmt": copy.deepcopy(checkpoint["nmt"])}
    config = stored["nmt"]["config"]
    config |= {"name": "WANDB_API_KEY", "stolen": "${oc.env:WANDB_API_KEY}", "stolen_too": {"deep": ["${stolen}"]}}
    path = write_crafted_checkpoint(
        stored, tmp_path / "a.ckpt", place, {"x": [reference]} if place == "data.tests" else reference
    )
    with pytest.raises(UserError, match="refused") as refused:
        TrainedRun(path).data()
    assert SECRET not in str(refused.value)


def test_an_empty_nmt_cache_is_the_default_cache(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", "")
    assert TrainedRun(write_checkpoint(checkpoint, tmp_path / "a.ckpt")).data().cache.as_posix() == ".cache/nmt"


def test_the_environment_may_set_the_data_folders(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NMT_DATA", str(tmp_path / "data"))
    run = TrainedRun(write_checkpoint(checkpoint, tmp_path / "a.ckpt"))
    data = run.data()
    assert isinstance(data, TranslationData)
    assert (str(data.cache), run.config.data.dir) == (str(tmp_path / "cache"), str(tmp_path / "data"))
    monkeypatch.setenv("MINE", "mine")  # a user's override may read the environment
    assert str(run.data(["data.cache=${oc.env:MINE}"]).cache) == "mine"


def test_a_resolved_value_is_not_resolved_again(checkpoint, tmp_path, monkeypatch):
    """The value would become a reference if it were resolved a second time."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    place = "data.source.language"
    path = write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", place, "$${default:null,'{oc.env:WANDB_API_KEY}'}")
    with pytest.raises(UserError, match="refused") as refused:
        print(TrainedRun(path).languages.source.preprocessing, TrainedRun(path).data())
    assert SECRET not in str(refused.value)


def test_choices_are_shown_without_being_resolved(trained, checkpoint, tmp_path, monkeypatch):
    """The translation page shows Hydra's choices and leaves references unresolved."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    write_checkpoint(checkpoint, folder / "checkpoints" / "last.ckpt")
    (folder / ".hydra").mkdir()
    chosen = {"attention": "${oc.env:WANDB_API_KEY}", "encoder": "gru"}
    (folder / ".hydra" / "hydra.yaml").write_text(json.dumps({"hydra": {"runtime": {"choices": chosen}}}))
    assert describe_parts(TrainedRun(str(folder))) == {"encoder": "gru", "attention": "${oc.env:WANDB_API_KEY}"}
    (folder / ".hydra" / "hydra.yaml").write_text("!!python/object/apply:os.system ['true']")
    assert describe_parts(TrainedRun(str(folder)))["encoder"] == "GRUEncoder"  # read from the stored configuration


def double(level: int) -> dict:
    """Return settings in which each value is two references to the next one."""
    return {f"x{n}": f"${{model.x.x{n + 1}}}${{model.x.x{n + 1}}}" for n in range(level)} | {f"x{level}": "a"}


def share(level: int) -> dict:
    """Return settings in which each part holds the next one twice."""
    node = {"a": "b"}
    for _ in range(level):
        node = {"a": node, "b": node}
    return node


CIRCLE: dict = {}
CIRCLE["a"] = CIRCLE


@pytest.mark.parametrize(
    "value",
    [
        double(34),
        share(40),
        CIRCLE,
        {f"x{n}": [f"${{model.x.x{n + 1}}}"] * 2 for n in range(34)},
        {f"x{n}": f"${{default:${{model.x.x{n + 1}}},${{model.x.x{n + 1}}}}}" for n in range(34)} | {"x34": "a"},
        {"x0": {"a": "${model.x}"}},
    ],
    ids=["texts", "dicts", "circle", "lists", "arguments", "circle of references"],
)
@pytest.mark.parametrize("section", ["model", "callbacks"])
def test_a_checkpoint_whose_settings_repeat_themselves_is_refused(checkpoint, tmp_path, section, value):
    changed = json.loads(json.dumps(value).replace("model.x", f"{section}.x")) if "a" not in value else value
    path = write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", f"{section}.x", changed)
    with pytest.raises(
        UserError, match=f"{re.escape(path)}: its settings have more than 20000 values, or more than 50"
    ):
        TrainedRun(path)


def test_settings_that_refer_to_each_other_in_many_places_are_opened(checkpoint, tmp_path):
    path = write_crafted_checkpoint(checkpoint, tmp_path / "a.ckpt", "callbacks.x", ["${model}"] * 20)
    assert TrainedRun(path).model.training is False


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/outside",
        "..",
        "checkpoints",
        "wandb",
        ".hydra",
        "a/b",
        "a\\b",
        "a\0b",
        "x\x1b[31m\n",
        "summary.json",
        "source.tokenizer.json",
        "best,beam=10",
    ],
)
def test_a_path_as_the_name_of_a_test_set_is_refused(checkpoint, tmp_path, name):
    """The name is refused because results are written to a folder of that name."""
    path = write_crafted_checkpoint(
        checkpoint, tmp_path / "a.ckpt", "data.tests", {name: {"split": "test", "count": 3}}
    )
    with pytest.raises(UserError, match=r"data\.test='.*': not a valid name for a folder of the run"):
        TrainedRun(path).data([]).test_pairs(name)
    stored = load_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(UserError, match=r"data\.test='.*': not a valid name for a folder of the run"):
        TrainedRun(write_crafted_checkpoint(stored, tmp_path / "a.ckpt", "data.test", name)).data().test_pairs()


FILES = {"_target_": "nmt.data.parallel_text.FilePairs", "_partial_": True}
HUB = {"_target_": "nmt.data.huggingface.HubPairs", "_partial_": True, "source": "en", "target": "de"}


@pytest.mark.parametrize("split", ["tests.test", "train"])
def test_a_run_reads_no_file_that_the_user_has_not_named(checkpoint, tmp_path, monkeypatch, capsys, split):
    secret, test = tmp_path / "secret", tmp_path / "test"
    for file in (secret, test):
        file.write_text("ma pu\n")
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("nmt.data.named_files.named_here", set())
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    path = run / "checkpoints" / "best.ckpt"
    files = {"source": str(secret), "target": str(secret)}
    write_crafted_checkpoint(checkpoint, path, "data.reader", FILES)
    write_crafted_checkpoint(load_checkpoint(path), path, "data.train", files)
    write_crafted_checkpoint(load_checkpoint(path), path, "data.tests", {"test": files})
    typed = [f"data.tests.test.{side}={test}" for side in files] + ["by_frequency=true"]
    arguments = (f"run={run}", "data.test=test", *(typed if split == "train" else ()))
    status, stderr = answer("evaluate", *arguments, capture=capsys, monkeypatch=monkeypatch)
    assert (status, f"data.{split}: {run} names {secret}, which no command here has named before" in stderr) == (
        1,
        True,
    )
    assert [file.name for file in run.iterdir()] == ["checkpoints"]
    assert answer("evaluate", *arguments, "trust=true", capture=capsys, monkeypatch=monkeypatch)[0] == 0
    assert answer("evaluate", *arguments, capture=capsys, monkeypatch=monkeypatch)[0] == 0  # it is named now


def test_a_word_table_is_not_learned_from_files_of_the_user(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.ckpt"
    write_crafted_checkpoint(checkpoint, path, "data.reader", FILES)
    files = {"source": "/etc/passwd", "target": "/etc/passwd"}
    write_crafted_checkpoint(load_checkpoint(path), path, "data.train", files)
    with pytest.raises(UserError, match=r"data.train: .* names /etc/passwd, which no command here has named before"):
        TrainedRun(str(path)).word_table()
    assert not (tmp_path / "word_table.tsv.gz").exists()


def test_results_are_not_written_through_a_link(trained, tmp_path, capsys, monkeypatch):
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "test,count=2").symlink_to(tmp_path / "elsewhere")
    arguments = (f"run={tmp_path}/run", "data.tests.test.count=2")
    status, stderr = answer("evaluate", *arguments, capture=capsys, monkeypatch=monkeypatch)
    folder = f"{tmp_path}/run/test,count=2"
    message = f"error: {folder}: is a link to another folder. Fix: output=FOLDER writes the results there"
    assert (status, stderr.strip()) == (1, message)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("settings", [{"path": "json", "data_files": "http://127.0.0.1:1/x.json"}, {"path": "OWNER/X"}])
def test_a_run_fetches_nothing(checkpoint, tmp_path, monkeypatch, settings):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.ckpt"
    write_crafted_checkpoint(checkpoint, path, "data.reader", HUB | settings)
    write_crafted_checkpoint(load_checkpoint(path), path, "data.tests", {"test": {"split": "test"}})
    with pytest.raises(UserError, match=r"data.tests.test: .* names (http|OWNER).*, which no command here has named"):
        TrainedRun(str(path)).data(["data.test=test"]).test_pairs()


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
        "name=[../../elsewhere]",
        "experiment=../../EVIL/x",
        "experiment=EVIL/x",
        "experiment=[demo,../../EVIL/x]",
        "debug=steps,../../EVIL/x",
        "+debug=luong2015/../../../EVIL/x",
        "experiment=${paper}",
        "++memory@callbacks.more=../../EVIL/y",
        "data@hydra.run=text",
        "pretraining={experiment: ../../EVIL/x}",
        "+pretraining.experiment=../../EVIL/x",
        "pretraining.overrides=[debug=../../EVIL/x]",
        """pretraining={overrides: ["pretraining={overrides: ['debug=../../EVIL/x']}"]}""",
        "pretraining={overrides: ['${paper}']}",
        "pretraining={overrides: ['+callbacks.more=${paper}']}",
        "+hydra.searchpath=[EVIL]",
        "hydra={searchpath: [EVIL]}",
        "hydra/launcher=processes",
        "+callbacks.more=[[{deep: [{_target_: os.system, command: touch MARKER}]}]]",
        "seed=range(1,3)",
        "experiment=glob(*)",
        "name=${data.dir}",
        "paper=$${default:null,'{oc.env:WANDB_API_KEY}'}",
        """paper="$${default:null,'{oc.env:WANDB_API_KEY}'}\"""",
        "paper=$${paper.departures}",
        "paper='${default:${oc.env:WANDB_API_KEY},x}'",
        "callbacks.checkpoint.filename=../../elsewhere",
        "+logger.wandb.settings.base_url=https://elsewhere",
        "logger={tensorboard: {name: ../../elsewhere}}",
    ],
)
def test_repeating_a_foreign_run_runs_no_code(tmp_path, capsys, monkeypatch, override):
    marker = tmp_path / "marker"
    (tmp_path / ".hydra").mkdir()
    written_override = override.replace("MARKER", str(marker)).replace("EVIL", write_foreign_configuration(tmp_path))
    (tmp_path / ".hydra" / "overrides.yaml").write_text(json.dumps(["seed=1", written_override]))
    status, stderr = answer("train", f"run={tmp_path}", capture=capsys, monkeypatch=monkeypatch, WANDB_API_KEY=SECRET)
    assert status == 1
    assert f"run={tmp_path}: refused to repeat {written_override}" in stderr
    assert SECRET not in stderr
    assert not marker.exists()


def write_foreign_configuration(folder) -> str:
    """Write a configuration that touches a file, and return its folder as a path without the first slash."""
    node = {"_target_": "pathlib.Path.touch", "self": str(folder / "marker")}
    (folder / "evil").mkdir()
    (folder / "evil" / "y.yaml").write_text(json.dumps(node))
    (folder / "evil" / "x.yaml").write_text("# @package _global_\n" + json.dumps({"callbacks": {"more": node}}))
    return f"{'../' * len(CONF_DIR.parts)}{folder}/evil".replace("//", "/")


@pytest.mark.parametrize("content", ["!!python/name:os.system", "[", "a: 1", "7", "\xff"])
def test_an_invalid_overrides_file_is_refused(tmp_path, capsys, monkeypatch, content):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_bytes(content.encode("latin-1"))
    status, stderr = answer("train", f"run={tmp_path}", capture=capsys, monkeypatch=monkeypatch)
    assert status == 1
    assert f"run={tmp_path}: .hydra/overrides.yaml is not " in stderr


# each line doubles the one before it: 2^40 words
BOMB = "l0: &l0 [word]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize("content", [BOMB, "a: &a [*a]"], ids=["bomb", "circle"])
def test_settings_that_repeat_parts_of_themselves_are_not_read(tmp_path, capsys, monkeypatch, caplog, content):
    for folder in (tmp_path / ".hydra", tmp_path / "checkpoints" / ".hydra"):
        folder.mkdir(parents=True)
        for name in ("overrides.yaml", "config.yaml"):
            (folder / name).write_text(content)
    (tmp_path / "summary.json").write_text('{"status": "completed"}')
    reason = ".hydra/overrides.yaml repeats parts of itself"
    status, stderr = answer("train", f"run={tmp_path}", capture=capsys, monkeypatch=monkeypatch)
    assert (status, reason in stderr) == (1, True)
    reason = ".hydra/config.yaml repeats parts of itself"
    config = configured(f"repeats='{tmp_path}'")
    _warn_of_changes(config)
    assert reason in caplog.text
    assert not _has_other_settings(tmp_path, config)
    with pytest.raises(UserError, match=reason):
        find_earlier_training(config, tmp_path)


def test_a_run_without_its_settings_is_repeated_with_a_warning(tmp_path, caplog):
    (tmp_path / ".hydra").mkdir()
    _warn_of_changes(configured(f"repeats='{tmp_path}'"))
    assert caplog.messages == [f"run={tmp_path}: has no .hydra/config.yaml, so its settings are not compared"]
