"""The commands of "Share a model" in the documents, run as they stand."""

import os
import re
import shlex

import pytest
from commands import ROOT, TWO_STEPS, command
from share.hub_server import TOKEN, run_hub

FEW = "data.tests.test.count=20"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharing") / "run"
    command("train", *TWO_STEPS, "attention=coverage", FEW, f"hydra.run.dir={folder}")
    return folder


def read_commands() -> list[list[str]]:
    section = (ROOT / "docs" / "translation.md").read_text(encoding="utf-8").partition("\n## Share a model\n")[2]
    lines = re.findall(r"^    python (\w+)\.py (.*?)(?: < source > target)? *# .*$", section, re.M)
    return [[verb, *shlex.split(arguments)] for verb, arguments in lines]


def test_the_commands_of_the_documents_share_a_model(run, tmp_path):
    names = {"FOLDER": str(run), "OWNER/NAME": "somebody/model"}
    outputs = {}
    with run_hub() as hub:
        environment = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": TOKEN}
        for verb, *arguments in read_commands():
            given = [re.sub("|".join(names), lambda match: names[match[0]], argument) for argument in arguments]
            done = command(verb, *given, stdin=b"Gurcu pu ma .\n", cwd=tmp_path, **environment)
            assert "Traceback" not in done.stderr
            outputs[shlex.join([verb, *arguments])] = done.stdout
        files = hub.models["somebody/model"]
    shared, of_hub = (outputs[f"translate {one}"] for one in ("shared", "hf:OWNER/NAME"))
    assert shared == of_hub
    assert shared.count("\n") == 1
    assert files.keys() == set(os.listdir(tmp_path / "shared"))
    assert re.search(r"^\| test \| 20 \| \d+\.\d\d \| \d+\.\d\d \| beam=5 \|", files["README.md"].decode(), re.M)
