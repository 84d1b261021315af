"""The wheel: its commands train, score, translate and compare in an empty folder, without the checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, TWELVE_STEPS

DEMO = ("experiment=demo", *TWELVE_STEPS, "trainer.max_epochs=1", "data.tests.test.count=20", "data.tests.long.count=5")
SOURCES = ("nmt", "conf", "hydra_plugins", "setup.py", "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.xdist_group("installed package")  # the tests share module fixtures


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Return a folder with nothing but the installed wheel."""
    sources, wheels, target = (tmp_path_factory.mktemp(name) for name in ("sources", "wheels", "target"))
    for name in SOURCES:  # copied, because building writes to the folder of the sources
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    pip = (sys.executable, "-m", "pip", "--quiet")
    build = (*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, sources)
    subprocess.run(build, check=True, timeout=300)
    subprocess.run((*pip, "install", "--no-deps", "--target", target, *wheels.iterdir()), check=True, timeout=300)
    return target


@pytest.fixture(scope="module")
def call(installed, tmp_path_factory):
    """Return a function that runs an installed command in a folder that was empty at first."""
    folder = tmp_path_factory.mktemp("empty")

    def call(command: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [sys.executable, installed / "bin" / command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(installed)},
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    call.folder = folder
    return call


@pytest.fixture(scope="module")
def run(call) -> Path:
    call("nmt-train", *DEMO)
    (run,) = (call.folder / "outputs" / "demo").iterdir()
    return run


def test_the_wheel_holds_every_module_and_every_configuration(installed):
    for folder, place in (("nmt", "nmt"), ("conf", "nmt/conf"), ("hydra_plugins", "hydra_plugins")):
        files = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.*") if path.suffix != ".pyc"}
        assert {file for file in files if not (installed / place / file).is_file()} == set()


def test_an_installed_run_is_completed_and_names_the_version_of_the_package(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["versions"]["nmt"] == "0.1.0"
    assert summary["git_commit"] is None


def test_an_installed_run_is_scored_and_translates(call, run):
    output = call("nmt-evaluate", f"run={run}", "as_json=true")
    scores, _ = json.JSONDecoder().raw_decode(output)  # behind it a warning of the low BLEU
    assert scores["sentences"] == 20
    assert call("nmt-translate", f"run={run}", text="Gurcu pu ma .\n\n").count("\n") == 2


def test_help_names_the_installed_commands_and_the_choices(call):
    text = call("nmt-train", "--help")
    assert "nmt-train experiment=demo" in text
    assert "attention: additive, concat" in text
    assert "python train.py" not in text
    assert "nmt-compare RUN_OR_SWEEP" in call("nmt-compare", "--help")


def test_a_sweep_of_the_installed_package_is_compared(call):
    sweep = ("-m", "attention=additive,coverage", "sweep=first", "score_test=true")
    assert "nmt-compare multirun/first" in call("nmt-train", *DEMO, *sweep)
    assert "2 systems of 2 runs on test" in call("nmt-compare", "multirun/first")
    assert (call.folder / "compare.html").is_file()
