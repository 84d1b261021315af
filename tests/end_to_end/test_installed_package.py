"""The wheel with the packages that it requires and no extra: its commands work in an empty folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from commands import ROOT, TWELVE_STEPS
from packaging.requirements import Requirement
from test_requirements import PROJECT

DEMO = ("experiment=demo", *TWELVE_STEPS, "trainer.max_epochs=1", "data.tests.test.count=20", "data.tests.long.count=5")
SOURCES = ("nmt", "conf", "hydra_plugins", "setup.py", "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.xdist_group("installed package")  # the tests share module fixtures


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Return an environment with the wheel and the packages that it requires, and with no extra."""
    sources, wheels, environment = (tmp_path_factory.mktemp(name) for name in ("sources", "wheels", "environment"))
    for name in SOURCES:  # copied, because building writes to the folder of the sources
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    venv.create(environment, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--quiet")
    build = (*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, sources)
    subprocess.run(build, check=True, timeout=300)
    install = (*pip, "--python", environment / "bin" / "python", "install", "--no-deps", *wheels.iterdir())
    subprocess.run(install, check=True, timeout=300)
    for package in list_required(map(Requirement, PROJECT["dependencies"])):  # linked, to download nothing
        for file in package.files:  # because packages share folders, such as nvidia/
            if file.parts[0] != "..":
                link = find_packages(environment) / file
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(package.locate_file(file))
    return environment


def find_packages(environment: Path) -> Path:
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


def list_required(requirements: Iterator[Requirement]) -> list[Distribution]:
    """Return the installed packages that requirements name, and those that these require."""
    waiting, packages = list(requirements), {}
    while waiting:
        one = waiting.pop()
        if (one.name, *one.extras) not in packages:
            packages[one.name, *one.extras] = package = distribution(one.name)
            for further in map(Requirement, package.requires or []):
                if not further.marker or any(further.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                    waiting.append(further)
    return list({package.name: package for package in packages.values()}.values())


@pytest.fixture(scope="module")
def call(installed, tmp_path_factory):
    """Return a function that runs an installed command in a folder that was empty at first."""
    folder = tmp_path_factory.mktemp("empty")

    def call(command: str, *arguments: str, text: str = "", status: int = 0) -> str:
        done = subprocess.run(
            [installed / "bin" / command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            cwd=folder,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stderr
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
        assert {file for file in files if not (find_packages(installed) / place / file).is_file()} == set()


def test_without_wandb_the_default_logger_writes_its_file_and_says_so(call):
    output = call("nmt-train", *DEMO, "logger=local", "hydra.run.dir=without_wandb")
    assert "logger=local: wandb is not installed, so only metrics.csv is written. Fix: pip install wandb\n" in output
    assert (call.folder / "without_wandb" / "metrics.csv").is_file()


EXTRAS = {  # a command that needs a package of the extra, and what its answer says
    "wandb": ("nmt-train logger=wandb", "logger=wandb: needs wandb"),
    "tensorboard": ("nmt-train logger=tensorboard", "logger=tensorboard: needs tensorboard"),
    "slurm": ("nmt-train -m hydra/launcher=submitit_slurm", "launcher=submitit_slurm: needs hydra-submitit-launcher"),
    "optuna": ("nmt-train hparams_search=optuna", "hydra/sweeper=optuna: needs hydra-optuna-sweeper"),
    "hub": ("nmt-train data=hub data.reader.path=OWNER/NAME", "data=hub: needs datasets"),
    "serve": ("nmt-compare RUN serve=true", "serve=true: needs starlette and uvicorn and psutil"),
    "align": ("nmt-align data.train.count=60", "no aligner"),
    "workspaces": ("python -m nmt.report.wandb_workspace RUN me/nmt", "wandb_workspace: needs wandb_workspaces"),
}


def test_every_extra_is_tried():
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys() - {"dev"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_an_extra_names_it_in_one_line(call, run, extra):
    words, needs = EXTRAS[extra]
    output = call(*words.replace("RUN", str(run)).split(), status=1)
    assert re.findall(rf"error: .*{needs} \(extra: {extra}\).*\. Fix: pip install [\w =.-]+\n", output)
    assert "Traceback" not in output


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
