"""Sweeps: jobs as processes, their states, and how they are started and stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from omegaconf import OmegaConf

from nmt.config.overrides import quote_value
from nmt.config.resolvers import folder_name, stage
from nmt.errors import ConfigurationError
from nmt.launch.process_launcher import ProcessLauncher, _check_direction, _has_other_settings
from nmt.launch.sweep import Sweep, _outcome, machine_shares, progress
from nmt.runs.code_fingerprint import digest_of
from nmt.runs.job import Job, end_process_group, stop
from nmt.runs.scoring import Scoring


def job_in(folder, status=None):
    if status:
        (folder / "summary.json").write_text(json.dumps({"status": status}))
    return Job(("attention=dot",), folder)


def test_a_job_always_has_the_same_command(tmp_path):
    command = job_in(tmp_path, "interrupted").command()
    assert command[2:] == ["attention=dot", "hydra.mode=RUN", f"hydra.run.dir='{tmp_path}'"]


def test_a_job_is_completed_if_its_summary_says_so(tmp_path):
    job = job_in(tmp_path)
    assert not job.is_completed
    (tmp_path / "summary.json").write_text('{"status": "comp')  # half a file
    assert not job.is_completed
    assert job_in(tmp_path, "completed").is_completed


def test_a_job_with_scoring_is_completed_when_its_scores_exist(tmp_path):
    (tmp_path / "summary.json").write_text('{"status": "completed"}')
    job = Job((), tmp_path, scored=Scoring("test", "keep"))
    assert not job.is_completed
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "scores.json").write_text('{"unknown": "keep"}')
    assert job.is_completed
    assert not Job((), tmp_path, scored=Scoring("test", "translate")).is_completed
    assert not Job((), tmp_path, scored=Scoring("news", "keep")).is_completed


@pytest.mark.parametrize(
    ("members", "is_completed"),
    [
        ([("run/checkpoints/best.ckpt", 200)], True),
        ([("best.ckpt", 100)], False),  # trained further since
        ([("last.ckpt", 200)], False),
        ([("best.ckpt", 100), ("previous.ckpt", 50)], True),
    ],
)
@pytest.mark.parametrize("best", [{"checkpoint": "checkpoints/best.ckpt", "step": 200}, {"score": 30.0}])
@pytest.mark.parametrize("is_there", [True, False])
def test_scores_of_the_best_weights_or_of_an_ensemble_count(tmp_path, members, is_completed, best, is_there):
    is_completed = (
        is_completed or "step" not in best or not is_there
    )  # if a summary names no step, or best.ckpt is gone
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ("best.ckpt" if is_there else "last.ckpt")).touch()
    (tmp_path / "summary.json").write_text(json.dumps({"status": "completed", "best": best}))
    scores = {"unknown": "keep", "members": [{"checkpoint": name, "step": step} for name, step in members]}
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "scores.json").write_text(json.dumps(scores))
    assert Job((), tmp_path, scored=Scoring("test", "keep")).is_completed == is_completed


def test_the_outcome_of_a_job_is_read_from_its_last_process(tmp_path):
    output = tmp_path / "output.log"
    output.write_text("error: of another day\nerror: holds a run with other settings\n\n")
    job, before = job_in(tmp_path), {"status": "failed", "error": "of another day"}
    (tmp_path / "summary.json").write_text(json.dumps(before))
    assert _outcome(job, before, 1, output) == ("failed", "error: holds a run with other settings")
    assert _outcome(job, before, 1, None) == ("failed", "exit status 1")
    assert _outcome(job, {"status": "running"}, 1, output) == ("failed", "of another day")
    assert _outcome(job, before, -9, output) == ("interrupted", "killed by SIGKILL")
    (tmp_path / "summary.json").write_text('{"status": "running"}')  # another process trains there
    assert _outcome(job, {"status": "running"}, 1, output)[0] == "failed"
    (tmp_path / "summary.json").write_text('{"status": "interrupted", "error": "SIGTERM"}')
    assert _outcome(job, before, 143, output) == ("interrupted", "SIGTERM")
    assert _outcome(job, json.loads((tmp_path / "summary.json").read_text()), 143, output)[0] == "interrupted"
    assert _outcome(job_in(tmp_path, "completed"), {"status": "completed"}, 0, output) == ("completed", "")


class QuickJob(Job):
    """A job that is completed at once."""

    def command(self):
        summary = json.dumps({"status": "completed"})
        return [sys.executable, "-S", "-c", f"open({str(self.folder / 'summary.json')!r}, 'w').write({summary!r})"]


def end_at_rename(number):
    """Let the process end at a rename, counted from 0, as SIGKILL ends it: nothing is cleaned up."""
    rename, left = Path.replace, iter(range(number))

    def rename_or_end(self, target):
        if next(left, None) is None:
            os._exit(9)
        return rename(self, target)

    Path.replace = rename_or_end


@pytest.mark.slow
def test_a_sweep_killed_at_any_write_is_completed_by_the_same_command(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.launch.sweep.SECONDS_BETWEEN_POLLS", 0.01)
    status, number = 9, -1
    while status:
        number += 1
        folder = tmp_path / str(number)
        jobs = [QuickJob((f"seed={seed}",), folder / f"seed={seed}") for seed in (1, 2)]
        process = os.fork()
        if not process:
            end_at_rename(number)
            Sweep(folder, jobs, 1, lambda *_: None).run()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        sweep = Sweep(folder, jobs, 1, lambda *_: None)
        sweep.run()
        written = json.loads((folder / "sweep.json").read_text())["jobs"]
        assert sweep.states == [job["status"] for job in written] == ["completed", "completed"]
        assert {path.name for path in folder.glob("[!.]*")} == {"sweep.json", "seed=1", "seed=2"}
    assert number == 5  # at the start, and where each of two jobs starts and ends


class Stubborn(subprocess.Popen):
    """A process that ignores SIGTERM."""

    def __init__(self):
        script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); time.sleep(60)"
        super().__init__([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
        self.stdout.readline()
        self.terminated = False

    def terminate(self):
        self.terminated = True
        super().terminate()


class Impatient(Stubborn):
    """A process for which waiting is interrupted by Ctrl-C."""

    def wait(self, timeout=None):
        if timeout is None:
            return super().wait()
        raise KeyboardInterrupt


def test_child_processes_of_an_ended_job_are_killed(monkeypatch):
    monkeypatch.setattr("nmt.runs.job.SECONDS_TO_FINISH", 0.3)
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; exit 1"], stdout=subprocess.PIPE, start_new_session=True)
    left = int(shell.stdout.readline())
    assert shell.wait() == 1
    os.kill(left, 0)
    end_process_group(shell)
    for _ in range(50):  # until its new parent has noticed
        if not _is_alive(left):
            break
        time.sleep(0.1)
    assert not _is_alive(left)


def _is_alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_all_jobs_get_sigterm_before_any_is_waited_for(monkeypatch):
    monkeypatch.setattr("nmt.runs.job.SECONDS_TO_STOP", 0.3)
    processes = [Stubborn(), Stubborn()]
    stop(processes)
    assert [process.returncode for process in processes] == [-9, -9]
    processes = [Impatient(), Stubborn()]
    with pytest.raises(KeyboardInterrupt):
        stop(processes)
    assert [(process.terminated, process.returncode) for process in processes] == [(True, -9), (True, -9)]


def test_a_jobs_folder_has_one_level_and_a_short_name():
    assert folder_name("attention=dot,seed=1") == "attention=dot,seed=1"
    assert folder_name("experiment=tu2016/groundhog") == "experiment=tu2016.groundhog"
    assert folder_name("") == "defaults"
    assert folder_name(r"trainer.max_time=00\:01,size.encoder=$\{size.hidden\}") == (
        "trainer.max_time=00:01,size.encoder={size.hidden}"
    )
    paths = ",".join(f"data.train.{side}=/{'folder/' * 12}{side}" for side in ("source", "target"))
    assert folder_name(f"{paths},experiment=mine,seed=1").startswith("seed=1,experiment=mine,data.train.source=.folder")
    assert folder_name(f"test,{paths},beam=5").startswith("test,beam=5,data.train.source=")
    long, longer = folder_name("a" * 300), folder_name("a" * 301)
    assert len(long) < 200
    assert long != longer


@pytest.mark.parametrize("name", [r"a\:b", "a'b", r"a\'b", "a b=c,d", "end\\", r"x\\y", "é", "a\\\\'"])
def test_hydra_reads_a_quoted_folder_as_it_is(name):
    read = OverridesParser.create().parse_override(f"hydra.run.dir={quote_value(Path('/tmp') / name)}")
    assert read.value() == f"/tmp/{name}"


def test_settings_suggested_twice_are_trained_once(monkeypatch):
    launcher, launched = ProcessLauncher(n_jobs=2), []
    launcher.config = OmegaConf.create(
        {"hydra": {"sweeper": {"direction": "maximize"}, "hydra_logging": {}, "verbose": 0}}
    )
    monkeypatch.setattr("nmt.launch.process_launcher.setup_globals", lambda: None)
    monkeypatch.setattr("nmt.launch.process_launcher.configure_log", lambda *_: None)

    def ran(overrides, first):
        launched.extend(overrides)
        return [JobReturn(overrides=list(one)) for one in overrides]

    monkeypatch.setattr(launcher, "_run", ran)
    suggested = [["dropout=0.1"], ["dropout=0.2"], ["dropout=0.1"]]
    assert [one.overrides for one in launcher.launch(suggested, 0)] == suggested
    assert launched == [("dropout=0.1",), ("dropout=0.2",)]


def test_jobs_that_run_at_once_share_the_machines_gpus_and_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("nmt.launch.sweep.available_cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert machine_shares(1) == [{}]
    assert machine_shares(2) == [
        {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "2,5"},
        {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "3"},
    ]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in machine_shares(4)] == ["2", "3", "5", "2"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert machine_shares(16)[0] == {"OMP_NUM_THREADS": "1"}


def test_progress_is_read_from_a_runs_metrics(tmp_path):
    assert progress(tmp_path) == "starting"
    (tmp_path / "metrics.csv").write_text("step,train/loss,valid/bleu\n49,3.1,\n80,,12.5\n99,2.0,\n")
    assert progress(tmp_path) == "step 99, valid/bleu 12.5"
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("149,,2")  # a row that is being written, or whose writer was killed
    assert progress(tmp_path) == "step 99, valid/bleu 12.5"


def test_a_sweep_skips_completed_jobs_and_names_the_others(tmp_path):
    jobs = []
    for name, status in (("dot", "completed"), ("general", "failed")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps({"status": status, "error": "it broke"}))
        jobs.append(Job((f"attention={name}", "seed=1"), tmp_path / name))
    sweep = Sweep(tmp_path, jobs, 1, on_change=lambda jobs, states: None)
    assert sweep.states == ["completed", "waiting"]
    sweep.errors[1] = "it broke"
    assert sweep.failures() == "1 of 2 jobs failed: attention=general: it broke"


def test_a_completed_job_is_started_again_where_restart_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "command", lambda self: [sys.executable, "-c", f"raise SystemExit({self.overrides[0]})"])
    jobs = []
    for name, code, restart in (("left", 3, False), ("refused", 1, True), ("confirmed", 0, True)):
        (tmp_path / name).mkdir()
        jobs.append(replace(job_in(tmp_path / name, "completed"), overrides=(str(code),), restart=restart))
    sweep = Sweep(tmp_path, jobs, 1, on_change=lambda jobs, states: None)
    sweep.run()
    assert sweep.states == ["completed", "failed", "completed"]
    assert sweep.failures() == "1 of 3 jobs failed: 1: exit status 1"
    later = Sweep(tmp_path, [replace(jobs[0], folder=tmp_path)], 1, on_change=lambda jobs, states: None, before=sweep)
    assert later.states == ["completed", "failed", "completed", "waiting"]  # the failed job is not started again


def test_a_sweeper_that_looks_for_the_worst_score_is_refused():
    checkpoint = OmegaConf.create({"monitor": "valid/loss", "mode": "min"})
    for direction in ("minimize", None, ["maximize"]):
        _check_direction(direction, checkpoint)
    with pytest.raises(ConfigurationError, match=r"maximize: looks for the worst valid/loss .*direction=minimize"):
        _check_direction("maximize", checkpoint)
    _check_direction("maximize", None)
    _check_direction("maximize", OmegaConf.create({"monitor": "valid/bleu", "mode": "most"}))


def test_changed_settings_of_a_job_are_noticed(tmp_path):
    config = OmegaConf.create({"dropout": 0.1, "seed": "${hydra:job.num}", "threads": 1})
    assert not _has_other_settings(tmp_path, config)
    composed = tmp_path / "checkpoints" / ".hydra" / "config.yaml"
    composed.parent.mkdir(parents=True)
    OmegaConf.save(config, composed)
    assert not _has_other_settings(tmp_path, OmegaConf.merge(config, {"threads": 2, "hydra": {"verbose": True}}))
    assert _has_other_settings(tmp_path, OmegaConf.merge(config, {"dropout": 0.3}))
    composed.write_text("{[")
    assert not _has_other_settings(tmp_path, config)


def test_a_sweep_counts_the_jobs_that_other_code_completed(tmp_path, caplog):
    jobs = []
    target = "nmt.model.attention.score.Additive"
    old, new = {target: "0"}, {target: digest_of(target)}
    for name, code in (("old", [old]), ("gone", [{"nmt.model.gone.Class": "1"}]), ("new", [new]), ("both", [old, new])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps({"status": "completed", "code": code}))
        jobs.append(Job((name,), tmp_path / name))
    Sweep(tmp_path, jobs, 1, on_change=lambda jobs, states: None).run()
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("2 of them were trained by code that has changed since")


def test_a_sweep_stops_its_jobs_before_slurm_requeues_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(Job, "command", lambda self: [sys.executable, "-c", "import time; time.sleep(60)"])
    sweep, states = Sweep(tmp_path, [job_in(tmp_path)], 1, on_change=lambda jobs, states: None), []
    monkeypatch.setattr("nmt.launch.sweep.time.sleep", lambda _: os.kill(os.getpid(), signal.SIGUSR1))
    monkeypatch.setattr("nmt.launch.sweep.requeue", lambda: states.extend(sweep.states))
    with pytest.raises(SystemExit) as left:
        sweep.run()
    assert (left.value.code, states) == (128 + signal.SIGUSR1, ["interrupted"])


def test_a_job_completed_by_another_process_is_not_started(tmp_path):
    history = []
    sweep = Sweep(tmp_path, [job_in(tmp_path)], 1, on_change=lambda jobs, states: history.append(list(states)))
    assert sweep.states == ["waiting"]
    job_in(tmp_path, "completed")
    sweep.run()
    assert not (tmp_path / "output.log").exists()
    assert history[-1] == sweep.states == ["completed"]
    assert json.loads((tmp_path / "sweep.json").read_text())["jobs"][0]["status"] == "completed"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"pretraining": None, "init_from": None}, "training"),
        ({"pretraining": {}, "init_from": None}, "finetuning"),
        ({"pretraining": {"without": ["memory"]}}, "finetuning"),
        ({"init_from": "run"}, "finetuning"),
    ],
)
def test_a_run_that_starts_from_other_weights_is_a_finetuning(settings, expected):
    assert stage(_root_=OmegaConf.create(settings)) == expected
