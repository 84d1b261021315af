"""Models are uploaded to a hub and opened from it; here it is a small server on loopback."""

import pickle
import re

import pytest
import yaml
from commands import answer
from huggingface_hub import constants
from share.hub_server import TOKEN, run_hub

from nmt import load
from nmt.data.vocabulary import read_vocabularies
from nmt.errors import UserError
from nmt.runs.trained_model import TrainedRun

LINE = "Gurcu pu ma ma nibi"
MODEL = "somebody/model"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty hub, for which this process has no token."""
    with run_hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        template = f"{server.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture
def published(hub, exported):
    """A hub that has the exported model."""
    hub.models[MODEL] = {path.name: path.read_bytes() for path in exported.iterdir()}
    return hub


def test_a_model_of_the_hub_translates_like_its_run(published, run):
    text = str(load(run).translate([LINE])[0])
    for name in (MODEL, f"{MODEL}@main", f"{MODEL}@v1", f"{MODEL}@{published.commit_of(MODEL)}"):
        assert str(load(f"hf:{name}").translate([LINE])[0]) == text


def test_a_model_of_the_hub_is_downloaded_once(published):
    load(f"hf:{MODEL}")
    load(f"hf:{MODEL}")
    downloads = [request for request in published.requests if request.startswith("GET") and "/resolve/" in request]
    assert len(downloads) == len(published.models[MODEL])


def test_a_model_that_was_downloaded_opens_without_a_connection(published, monkeypatch):
    load(f"hf:{MODEL}")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert load(f"hf:{MODEL}").config["name"] == "nmt"


def test_a_revision_keeps_its_weights_when_the_model_changes(published):
    commit = published.commit_of(MODEL)
    published.models[MODEL] = published.models[MODEL] | {"config.json": b"{}"}
    with pytest.raises(UserError, match=r"is not a model of this project \(config.json has no config\)"):
        load(f"hf:{MODEL}")
    with pytest.raises(UserError, match=f"run=hf:{MODEL}@{commit}: no such revision"):
        load(f"hf:{MODEL}@{commit}")


def test_vocabularies_of_a_model_of_the_hub_are_read(published, run):
    vocabularies = read_vocabularies(f"hf:{MODEL}")
    assert [one.to_json() for one in vocabularies] == [
        language.vocabulary.to_json() for language in TrainedRun(str(run)).languages
    ]


def test_results_do_not_go_to_the_cache(published, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = ("data.tests.test.count=2", "beam=1", "show=0", "matmul_precision=highest")
    status, stderr = answer("evaluate", f"run=hf:{MODEL}", *keys, capture=capsys, monkeypatch=monkeypatch)
    assert status == 0, stderr
    assert (tmp_path / "outputs" / "hub" / MODEL / "test,beam=1,count=2" / "scores.json").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:model", "not the name of a model on the hub. Fix: run=hf:OWNER/NAME, or hf:OWNER/NAME@REVISION"),
        ("hf:../model", "not the name of a model on the hub"),
        ("hf:some--body/model", "not the name of a model on the hub"),
        ("hf:somebody/modle", "no such model, or it is private. Fix: correct the name, or `hf auth login`"),
        ("hf:somebody/model@v2", "no such revision. Fix: name a commit, tag or branch of the model"),
        ("hf:somebody/secret", "no such model, or it is private. Fix: correct the name, or `hf auth login`"),
        ("hf:somebody/bert", "is not a model of this project, because it has no source.tokenizer.json"),
    ],
)  # fmt: skip
def test_a_name_that_opens_no_model_is_explained(published, capsys, monkeypatch, name, message):
    published.models["somebody/secret"] = published.models[MODEL]
    published.private.add("somebody/secret")
    published.models["somebody/bert"] = {"model.safetensors": b"0" * 99, "config.json": b"{}"}
    status, stderr = answer("translate", f"run={name}", capture=capsys, monkeypatch=monkeypatch)
    assert (status, f"error: run={name}: {message}" in stderr) == (1, True), stderr
    assert not [request for request in published.requests if "GET" in request and "/resolve/" in request]


def test_a_private_model_opens_with_a_token(published, monkeypatch):
    published.private.add(MODEL)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert load(f"hf:{MODEL}").config["name"] == "nmt"


def test_a_hub_that_cannot_be_reached_is_explained(published, exported, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=rf"^run=hf:{MODEL}: the hub cannot be reached \(.*\)\. Fix: try again"):
        load(f"hf:{MODEL}")
    with pytest.raises(UserError, match=r"^push=hf:a/b: the hub cannot be reached \(.*\)\. Fix: try again"):
        load(exported).push("hf:a/b")


def test_other_files_of_a_model_are_not_downloaded(published, tmp_path):
    names = ("../../../outside", "/outside", "config.json/../outside", "sub/config.json", "pytorch_model.bin", "nmt.py")
    hostile = dict.fromkeys(names, pickle.dumps(print))
    published.models[MODEL] = published.models[MODEL] | hostile
    assert load(f"hf:{MODEL}").config["name"] == "nmt"
    downloaded = {path.name for path in tmp_path.rglob("snapshots/*/*")}
    assert downloaded == published.models[MODEL].keys() - hostile.keys()
    assert not list(tmp_path.rglob("outside"))


def test_a_file_that_is_too_large_is_not_downloaded(published):
    published.models[MODEL]["config.json"] = b" " * (4 << 20) + b"{}"
    with pytest.raises(UserError, match=r"^run=hf:.*: config.json has 4194306 bytes, and may have 4194304$"):
        load(f"hf:{MODEL}")
    assert not [request for request in published.requests if "GET" in request and "/resolve/" in request]


def test_a_pickle_on_the_hub_is_refused(published):
    published.models[MODEL]["model.safetensors"] = pickle.dumps(print)
    with pytest.raises(UserError, match=r"model\.safetensors: holds no weights in safetensors"):
        load(f"hf:{MODEL}")


def test_a_run_and_an_edited_folder_are_uploaded(hub, run, copy, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    card = copy / "README.md"
    card.write_text(re.sub("# license: .*", "license: mit", card.read_text()))
    (copy / "notes.txt").write_text("mine")
    for folder, name in ((run, "somebody/first"), (copy, "somebody/second")):
        arguments = (f"run={folder}", f"push=hf:{name}")
        status, stderr = answer("evaluate", *arguments, capture=capsys, monkeypatch=monkeypatch)
        assert status == 0, stderr
        assert name in hub.private  # a new model is seen by its owner alone
        assert hub.models[name].keys() == {path.name for path in copy.iterdir()} - {"notes.txt"}
    cards = [hub.models[name]["README.md"].decode() for name in hub.models]
    assert 'load("hf:somebody/first")' in cards[0]
    assert yaml.safe_load(cards[1].split("---")[1])["license"] == "mit"
    assert load("hf:somebody/second").config["name"] == "nmt"


def test_an_upload_without_a_token_is_explained(hub, copy):
    with pytest.raises(
        UserError, match=r"^push=hf:a/b: .* Fix: .*`hf auth login`, or HF_TOKEN in the environment, with a token"
    ):
        load(copy).push("hf:a/b")
    assert hub.models == {}


def test_a_link_is_not_uploaded(hub, copy, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    (tmp_path / "secret").write_text("a secret")
    model = load(copy)
    (copy / "README.md").unlink()
    (copy / "README.md").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match=r"refused, because README\.md is a link out of its folder"):
        model.push("hf:a/b")
    assert hub.models == {}


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("nmt.errors.is_importable", lambda module: module != "huggingface_hub")
    with pytest.raises(
        UserError, match=r"^run=hf:a/b: needs huggingface_hub \(extra: hub\). Fix: pip install huggingface_hub$"
    ):
        load("hf:a/b")
