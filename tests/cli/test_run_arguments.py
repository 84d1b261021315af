"""Runs as plain arguments of evaluate.py, translate.py and compare.py."""

from glob import glob
from pathlib import Path

import pytest
from commands import answer

from nmt.cli import evaluate
from nmt.cli.arguments import read_arguments
from nmt.cli.run_arguments import name_runs, split_runs
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, UserError
from nmt.report.load.run_folder import find_runs
from nmt.runs.checkpoint_file import locate_checkpoint
from nmt.system.files import suggest_path

JOBS = ["multirun/first/attention=dot,seed=1", "multirun/first/attention=dot,seed=2"]


@pytest.fixture(autouse=True)
def _sweep(tmp_path, monkeypatch):
    """Change to a folder that holds a sweep of two runs, with the files that lie beside them."""
    monkeypatch.chdir(tmp_path)
    for job in JOBS:
        (tmp_path / job).mkdir(parents=True)
    for name in ("sweep.json", "multirun.yaml", "table.md"):
        (tmp_path / "multirun" / "first" / name).touch()


@pytest.mark.parametrize("command", ["evaluate", "translate", "compare"])
def test_every_command_takes_the_runs_that_a_shell_completes(command):
    arguments = sorted(glob("multirun/first/*"))
    assert len(arguments) == 5
    assert split_runs(command, [*arguments, "output=a/b"]) == (JOBS, ["output=a/b"])


def test_files_of_a_sweep_by_slurm_are_passed_over():
    """Such a sweep has no sweep.json, but Hydra's multirun.yaml."""
    Path("multirun/first/sweep.json").unlink()
    assert split_runs("evaluate", sorted(glob("multirun/first/*"))) == (JOBS, [])


def test_any_error_of_one_run_leaves_the_others_to_be_evaluated(capsys, monkeypatch):
    evaluated = []

    def run_out_of_memory(settings, data_overrides, indent):
        evaluated.append(settings.run)
        if settings.run == JOBS[0]:
            raise RuntimeError("out of memory")

    monkeypatch.setattr(evaluate, "evaluate_test_set", run_out_of_memory)
    settings, _ = read_arguments("evaluate", [], usage="")
    with pytest.raises(UserError, match="1 of 2 runs failed; the lines above name the reasons"):
        evaluate.evaluate_in_turn(JOBS, settings, [], ())
    assert evaluated == JOBS
    assert "out of memory" in capsys.readouterr().err


def test_a_checkpoint_is_a_run_and_another_file_is_not(tmp_path):
    for name in ("best.ckpt", "news.en"):
        (tmp_path / name).touch()
    assert split_runs("translate", ["best.ckpt", "news.en", "nowhere"]) == (["best.ckpt"], ["news.en", "nowhere"])


def test_a_tilde_in_a_plain_argument_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert split_runs("evaluate", [f"~/{JOBS[0]}"]) == ([f"{tmp_path}/{JOBS[0]}"], [])


def test_an_argument_that_is_a_key_and_a_folder_is_refused(tmp_path):
    (tmp_path / "seed=1").mkdir()
    with pytest.raises(ConfigurationError, match=r"^seed=1: is a key, and also .* Fix: \./seed=1 names the run$"):
        split_runs("evaluate", ["seed=1"])
    assert split_runs("evaluate", ["./seed=1", "seed=2"]) == (["./seed=1"], ["seed=2"])


def test_a_plain_argument_is_run_and_several_are_runs():
    settings = load_defaults("translate")
    name_runs(settings, JOBS[:1])
    assert (settings.run, settings.runs) == (JOBS[0], [])
    settings = load_defaults("translate")
    name_runs(settings, JOBS)
    assert (settings.run, settings.runs) == (None, JOBS)
    with pytest.raises(ConfigurationError, match=rf"^{JOBS[0]}: runs= names runs too. Fix: leave out runs="):
        name_runs(settings, JOBS[:1])


def test_runs_are_evaluated_in_turn_and_an_error_stops_no_other(capfd, monkeypatch):
    evaluated = []

    def evaluate(settings, data_overrides, indent):
        evaluated.append((settings.run, settings.beam, data_overrides))
        if settings.run == JOBS[0]:
            raise UserError(f"run={JOBS[0]}: holds no checkpoint")

    monkeypatch.setattr("nmt.cli.evaluate.evaluate_test_set", evaluate)
    arguments = (*JOBS, "beam=3", "data.test=long")
    status, stderr = answer("evaluate", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert evaluated == [(job, 3, ["data.test=long"]) for job in JOBS]
    first, last = stderr.strip().split("\n")
    assert (status, first) == (1, f"error: run={JOBS[0]}: holds no checkpoint")
    assert last.startswith("error: 1 of 2 runs failed")


@pytest.mark.parametrize(
    ("path", "suggested"),
    [
        ("multirun/frist", "multirun/first"),
        ("multirn/first/attention=dot,seed=1", "multirun"),
        (f"{JOBS[0]}/bst.ckpt", f"{JOBS[0]}/best.ckpt"),
        ("multirun/first/sweep.jsn", None),  # no run
        ("multirun/first/sweep.json/x", None),
        ("multirun/second", None),
        ("multirun/first", None),  # exists
    ],
)
def test_the_path_most_like_a_missing_one_is_suggested(path, suggested):
    Path(JOBS[0], "best.ckpt").touch()
    expected = f" (did you mean {suggested}?)" if suggested else ""
    assert suggest_path(Path(path)) == expected
    assert suggest_path(Path(path).absolute()) == expected.replace("mean ", f"mean {Path.cwd()}/")


@pytest.mark.parametrize("find", [lambda path: find_runs([path]), lambda path: locate_checkpoint(Path(path))])
def test_a_path_of_runs_that_is_not_there_is_an_error_with_the_most_similar(find):
    with pytest.raises(UserError, match=r"multirun/frist: no such folder.* \(did you mean multirun/first\?\)$"):
        find("multirun/frist")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["output=here"], "output=here: is of one run, and 2 are given. Fix: name one"),
        (["push=hf:a/b"], "push=hf:a/b: is of one run, and 2 are given. Fix: name one"),
        (["score=[a,b]"], "score=['a', 'b']: is of one run, and 2 are given. Fix: name one"),
        (["beam=0"], "beam=0: must be at least 1"),
        (
            ["multirun/first/attention=dto,seed=1"],
            f"multirun/first/attention=dto,seed=1: no such folder or checkpoint (did you mean {JOBS[0]}?), and not KEY",
        ),
        (["multirun/first/sweep.yaml"], "multirun/first/sweep.yaml: no such folder or checkpoint, and not KEY=VALUE."),
        (["weights=[2,1]", "run=a"], "multirun/first/attention=dot,seed=1: run= names runs too."),
    ],
)
def test_a_mistake_beside_several_runs_is_one_line(arguments, message, capfd, monkeypatch):
    status, stderr = answer("evaluate", *JOBS, *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr.count("\n")) == (1, 1)
    assert stderr.startswith(f"error: {message}")


def test_two_runs_of_a_command_without_ensembles_are_plain_arguments(capfd, monkeypatch):
    status, stderr = answer("compare", "run=a", "run=b", capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr) == (1, "error: run=a run=b: one key, several values. Fix: keep one, a b without run=\n")


def test_compare_takes_threads_and_device_as_other_commands_do(capfd, monkeypatch):
    status, stderr = answer("compare", "threads=0", "device=cpu", capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr.startswith("error: threads=0: must be a number of threads from 1 to")) == (1, True)
