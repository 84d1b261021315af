"""user_dir=FOLDER: the documented folder, with every command, in every kind of process, and attacked."""

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from commands import TWO_STEPS, answer, command
from documented_files import write_users_folder
from omegaconf import OmegaConf

from nmt import load
from nmt.config.schema import load_defaults
from nmt.errors import UserError, user_folders
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.web.served_run import open_runs

pytestmark = [
    pytest.mark.xdist_group("user_dir"),  # the tests share module fixtures
    pytest.mark.usefixtures("forgotten_users_folder"),
]

SHARP = (*TWO_STEPS, "data.tests.test.count=20", "attention=sharp")
REFUSED = r"_target_=my_parts\.Sharp: refused, because .* Fix: add user_dir=FOLDER if you trust it"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return write_users_folder(tmp_path_factory.mktemp("users"))


@pytest.fixture(scope="module")
def run(project) -> Path:
    """A run that was trained with the folder as a user would name it."""
    folder = project.parent / "run"
    command("train", "user_dir=my_project/", *SHARP, f"hydra.run.dir={folder}", cwd=project.parent)
    return folder


def read_summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_the_documented_class_is_trained_and_its_code_is_recorded(run, project):
    summary = read_summary(run)
    assert summary["status"] == "completed"
    assert len(summary["code"][-1]["my_parts.Sharp"]) == 16
    config = load_checkpoint(run / "checkpoints" / "last.ckpt")["nmt"]["config"]
    assert (config["user_dir"], config["attention"]["score"]["temperature"]) == (str(project), 0.5)


def test_every_command_opens_the_run_with_the_folder_alone(run, project, tmp_path):
    """The stored configuration names the folder; that counts for nothing."""
    for verb in ("evaluate", "translate"):
        done = command(verb, f"run={run}", check=False, stdin=b"Gurcu pu ma .\n")
        assert (done.returncode, done.stdout) == (1, "")
        assert re.search(f"^error: {run}/checkpoints/.*{REFUSED}$", done.stderr.strip())
    done = command("translate", f"run={run}", "user_dir=../my_project", stdin=b"Gurcu pu ma .\n", cwd=run)
    assert done.stdout.count("\n") == 1
    shutil.copytree(project, tmp_path / "moved")
    scores = json.loads(command("evaluate", f"run={run}", f"user_dir={tmp_path}/moved", "as_json=true").stdout)
    assert scores["sentences"] > 0
    assert "1 system of 1 run" in command("compare", str(run), f"output={tmp_path}/a.html").stdout
    assert "1 system" in command("compare", str(run), f"user_dir={project}", f"output={tmp_path}/a.html").stdout


def test_python_opens_the_run_with_the_folder_alone(run, project):
    with pytest.raises(UserError, match=REFUSED):
        load(run)
    model = load(run, user_dir=project)
    assert model.translate(["Gurcu pu ma ."])[0].words
    with pytest.raises(UserError, match=REFUSED):  # the folder of one call is not that of another
        load(run)
    with pytest.raises(UserError, match=r"user_dir=nowhere: no such folder\. Fix"):
        load(run, user_dir="nowhere")


def test_the_page_serves_the_run_with_the_folder_alone(run, project):
    settings = OmegaConf.merge(load_defaults("translate"), dict.fromkeys(load_defaults("search")), {"run": str(run)})
    with pytest.raises(UserError, match=REFUSED):
        open_runs(settings)
    (served,) = open_runs(OmegaConf.merge(settings, {"user_dir": str(project)})).values()
    assert served.describe()["parts"]["attention"] == "sharp"


@pytest.mark.parametrize("value", ["", "nowhere", "FILE", "EMPTY"])
@pytest.mark.parametrize("verb", ["train", "evaluate", "translate", "compare"])
def test_a_wrong_folder_is_one_line_of_every_command(verb, value, run, tmp_path, capfd, monkeypatch):
    (tmp_path / "FILE").write_text("")
    (tmp_path / "EMPTY").mkdir()
    path = f"{tmp_path}/{value}" if value.isupper() else value
    opened = {"train": "seed=1", "compare": str(run)}.get(verb, f"run={run}")
    status, stderr = answer(verb, opened, f"user_dir={path}", capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr.count("\n")) == (1, 1)
    assert stderr.startswith(f"error: user_dir={path}: ")
    assert ". Fix: " in stderr


def test_a_run_is_resumed_with_its_changed_code_and_a_moved_folder(run, project, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    shutil.copytree(project, tmp_path / "moved")
    again = (*SHARP, "user_dir=moved", "hydra.run.dir=run")
    assert "completed already" in command("train", *again, cwd=tmp_path).stderr
    code = tmp_path / "moved" / "my_parts.py"
    code.write_text(code.read_text().replace("self.temperature * queries", "2 * self.temperature * queries"))
    done = command("train", *again, "trainer.max_steps=4", cwd=tmp_path)
    assert "the code of this run changed since it started" in done.stderr
    summary = read_summary(tmp_path / "run")
    assert (summary["status"], summary["steps"], len(summary["code"])) == ("completed", 4, 2)


def test_a_repeated_run_needs_the_folder_typed_again(run, project, tmp_path):
    again = (f"run={run}", f"hydra.run.dir={tmp_path}/again")
    done = command("train", *again, check=False)
    assert f"run={run}: was trained with user_dir='{project}'. Fix: add user_dir=FOLDER if you trust it" in done.stderr
    assert "not as in" not in command("train", *again, f"user_dir={project}").stderr
    one, other = (
        load_checkpoint(folder / "checkpoints/last.ckpt")["state_dict"] for folder in (run, tmp_path / "again")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_jobs_of_a_sweep_use_the_folder_and_are_compared(project, tmp_path):
    sweep = ("-m", "attention=general,sharp", "user_dir=my_project", "score_test=true", "data.tests.test.count=5")
    place = f"hydra.sweep.dir={tmp_path}/sweep"
    command("train", *sweep, *TWO_STEPS, place, "hydra.launcher.n_jobs=2", cwd=project.parent)
    jobs = {folder.name.split(",")[0]: read_summary(folder) for folder in (tmp_path / "sweep").glob("attention*")}
    assert {name: job["status"] for name, job in jobs.items()} == {
        "attention=general": "completed",
        "attention=sharp": "completed",
    }
    assert not any("user_dir" in path.name for path in (tmp_path / "sweep").iterdir())
    compared = command("compare", f"{tmp_path}/sweep", f"output={tmp_path}/compare.html", "resamples=10").stdout
    assert "2 systems of 2 runs" in compared
    systems = json.loads((tmp_path / "compare.json").read_text())["systems"]
    assert {system["system"] for system in systems} == {"attention=general", "attention=sharp"}


def test_a_pretraining_stage_uses_the_folder(project, tmp_path):
    stages = ("decoder=feedback", "memory=buffer", "pretraining={without: [memory]}", "fresh=[decoder.memory.*]")
    folders = ("hydra.run.dir=run", "pretraining_folder=stages", f"user_dir={project}")
    command("train", *SHARP, *stages, *folders, cwd=tmp_path)
    (stage,) = (tmp_path / "stages").glob("*/summary.json")
    assert read_summary(tmp_path / "run")["initialized_from"]["run"] == str(stage.parent)


def test_two_ranks_start_from_a_run_with_the_folder(run, project, tmp_path):
    place = (f"user_dir={project}", f"init_from={run}", f"hydra.run.dir={tmp_path}")
    command("train", *SHARP, "trainer=ddp_cpu", *place)
    summary = read_summary(tmp_path)
    assert (summary["status"], summary["machine"]["ranks"]) == ("completed", 2)
    assert summary["initialized_from"]["fresh"] == []


@pytest.mark.skipif(find_spec("submitit") is None, reason="hydra-submitit-launcher is not installed")
def test_a_job_of_submitit_uses_the_folder_from_any_place(project, tmp_path):
    """Such a job begins in a new process, which has the composed settings but not the command."""
    sweep = ("-m", "hydra/launcher=submitit_local", f"user_dir={project}", f"hydra.sweep.dir={tmp_path}/sweep")
    command("train", *sweep, *SHARP, cwd=tmp_path)
    (job,) = (tmp_path / "sweep").glob("attention*/summary.json")
    assert read_summary(job.parent)["status"] == "completed"


def test_a_folder_that_a_configuration_file_names_is_refused(project, tmp_path, capfd, monkeypatch):
    experiment = tmp_path / "experiment" / "named.yaml"
    experiment.parent.mkdir()
    experiment.write_text(f"# @package _global_\nuser_dir: {project}\n")
    arguments = ("--config-dir", str(tmp_path), "experiment=named", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert f"error: user_dir={project}: is set by a file. Fix: type it on the command line" in stderr
    assert user_folders == []


MISTAKES = {
    "attention=shrap": r"attention=shrap: no such choice \(did you mean sharp\?\)",
    "attention/score=shrap": r"attention/score=shrap: no such choice \(did you mean sharp\?\)",
    "attention.score.temprature=2": r"attention.score.temprature: no such key \(did you mean temperature\?\)",
    "+attention.score.heat=2": "attention.score.heat: no such setting. Fix: choose query_size, annotation_size, temp",
    "attention.score._target_=my_parts.Shrap": r"my_parts.Shrap: refused, because there is no such class \(module",
    "attention.score._target_=my_prts.Sharp": "my_prts.Sharp: refused, because .* user_dir=.* define",
    "attention.score=sharp": "attention.score=sharp: sharp is a choice of a group. Fix: attention/score=sharp",
    "attention.score._target_=broken.Sharp": r"/my_project/broken.py, line 2: ZeroDivisionError: division by zero",
    "+callbacks.mine._target_=broken.Mine": r"/my_project/broken.py, line 2: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize(("argument", "message"), MISTAKES.items())
def test_a_mistake_in_the_users_code_or_command_is_one_line(argument, message, tmp_path, capfd, monkeypatch):
    project = write_users_folder(tmp_path)
    (project / "broken.py").write_text("import torch\n1 / 0\n")
    chosen = () if argument.startswith("attention=") else ("attention=sharp",)
    arguments = (f"user_dir={project}", *chosen, argument, "size=tiny", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert re.search(message, stderr.strip().splitlines()[-1]), stderr


def test_help_names_the_choices_of_the_folder(project):
    text = command("train", f"user_dir={project}", "--help").stdout
    assert re.search("^attention: .*general_scaled, .*sharp, ", text, re.MULTILINE)
    assert "user_dir=FOLDER" in text
