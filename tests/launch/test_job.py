"""How runs are started as processes of their own."""

import json

import torch

from nmt.launch.job import Job
from nmt.launch.local import Sweep, progress, shares_of_the_machine
from nmt.resolvers import folder_name


def job_in(folder, status=None):
    if status:
        (folder / "summary.json").write_text(json.dumps({"status": status}))
    return Job(("attention=dot",), folder)


def test_a_job_is_the_same_command_however_often_it_is_started(tmp_path):
    command = job_in(tmp_path, "interrupted").command()
    assert command[2:] == ["attention=dot", "hydra.mode=RUN", f"hydra.run.dir='{tmp_path}'"]


def test_only_a_summary_that_says_so_makes_a_job_completed(tmp_path):
    job = job_in(tmp_path)
    assert not job.is_completed
    (tmp_path / "summary.json").write_text('{"status": "comp')  # half a file
    assert not job.is_completed
    assert job_in(tmp_path, "completed").is_completed


def test_folders_of_jobs_have_one_level_and_never_a_name_too_long():
    assert folder_name("attention=dot,seed=1") == "attention=dot,seed=1"
    assert folder_name("experiment=tu2016/groundhog") == "experiment=tu2016.groundhog"
    assert folder_name("") == "defaults"
    long, longer = folder_name("a" * 300), folder_name("a" * 301)
    assert len(long) < 200
    assert long != longer


def test_jobs_that_run_at_once_share_the_machines_gpus_and_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert shares_of_the_machine(1) == [{}]
    assert shares_of_the_machine(2) == [
        {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "2,5"},
        {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "3"},
    ]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares_of_the_machine(4)] == ["2", "3", "5", "2"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert shares_of_the_machine(16)[0] == {"OMP_NUM_THREADS": "1"}


def test_progress_is_read_from_a_runs_metrics(tmp_path):
    assert progress(tmp_path) == "starting"
    (tmp_path / "metrics.csv").write_text("step,train/loss,valid/bleu\n49,3.1,\n80,,12.5\n99,2.0,\n")
    assert progress(tmp_path) == "step 99, valid/bleu 12.5"


def test_a_sweep_knows_at_its_start_what_is_completed_and_names_jobs_by_what_tells_them_apart(tmp_path):
    jobs = []
    for name, status in (("dot", "completed"), ("general", "failed")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps({"status": status, "error": "it broke"}))
        jobs.append(Job((f"attention={name}", "seed=1"), tmp_path / name))
    sweep = Sweep(tmp_path, jobs, 1, told=lambda jobs, states: None)
    assert sweep.states == ["completed", "waiting"]
    assert sweep.failures() == "1 of 2 jobs failed: attention=general: it broke"
