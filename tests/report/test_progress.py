"""How far runs are, read from folders that may be half written or damaged."""

import json

import pytest
from report.folders import write_run

from nmt.report.load.progress import read_progress
from nmt.report.load.run_folder import find_runs, read_sweep_jobs

RUNNING = {"status": "running", "planned_steps": 800}


def progress_of(folder):
    """Return the progress of the runs of a sweep, by name."""
    jobs = read_sweep_jobs(folder)
    return {run.name: read_progress(run, jobs.get(run.folder.name, {})) for run in find_runs([str(folder)])}


def write_jobs(folder, **jobs):
    entries = [{"folder": name, "overrides": [f"x={name}"], **entry} for name, entry in jobs.items()]
    (folder / "sweep.json").write_text(json.dumps({"jobs": entries}))


def test_steps_and_scores_of_a_running_run_are_those_of_its_metrics(tmp_path):
    write_run(tmp_path / "run", summary=RUNNING)
    row = progress_of(tmp_path)["run"]
    assert (row["status"], row["notes"], row["steps"], row["planned"]) == ("running", [], 351, 800)
    rows = [line.split(",") for line in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:]]
    bleu = [float(f"{float(cells[4]):.5g}") for cells in rows if cells[4]]
    assert row["valid_bleu"] == {"last": bleu[-1], "best": max(bleu)}
    assert row["curves"]["bleu"]["valid/bleu"][1] == bleu


def test_runs_that_differ_in_the_seed_are_a_group(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / f"attention=dot,seed={seed}", overrides=("attention=dot",), seed=seed)
    assert {row["group"] for row in progress_of(tmp_path).values()} == {"attention=dot"}


@pytest.mark.parametrize(
    ("summary", "job", "status", "notes"),
    [
        ({"status": "completed"}, {"status": "running"}, "completed", []),
        ({"status": "failed", "error": "NaN\nin line 3"}, {}, "failed", ["NaN"]),
        ({"status": "failed", "error": "NaN"}, {"status": "running"}, "running", []),  # it was started again
        ({"status": "running"}, {"status": "interrupted", "error": "killed"}, "interrupted", ["killed"]),
        ({"status": "interrupted", "error": "stopped"}, {"status": "waiting"}, "waiting", []),
        ({"status": None}, {}, "unknown", ["summary.json has no status"]),
    ],
)  # fmt: skip
def test_the_status_of_a_job_is_that_of_the_run_and_of_its_sweep(tmp_path, summary, job, status, notes):
    write_run(tmp_path / "run", summary=summary)
    write_jobs(tmp_path, **({"run": job} if job else {}))
    row = progress_of(tmp_path)["run"]
    assert (row["status"], row["notes"]) == (status, notes)


def test_a_job_that_was_refused_before_its_run_began_has_the_reason_of_the_sweep(tmp_path):
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    write_jobs(tmp_path, run={"status": "failed", "error": "error: size=x: no such choice"})
    row = progress_of(tmp_path)["run"]
    assert (row["status"], row["notes"][0], row["steps"]) == ("failed", "error: size=x: no such choice", 0)


def test_a_completed_job_without_a_folder_is_gone(tmp_path):
    write_run(tmp_path / "other")
    write_jobs(tmp_path, removed={"status": "completed"}, waiting={"status": "waiting"})
    rows = progress_of(tmp_path)
    assert rows["removed"]["notes"] == ["its folder is gone"]
    assert (rows["waiting"]["status"], rows["waiting"]["notes"]) == ("waiting", [])


def test_samples_are_those_of_the_last_validation(tmp_path):
    run = write_run(tmp_path / "run")
    samples = {"step": 40, "sentences": [["ma pu", "pu ma", "pu pu"]]}
    (run / "valid_samples.json").write_text(json.dumps(samples))
    assert progress_of(tmp_path)["run"]["samples"] == samples


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"step": 1, "sentences": [["a", "b"]]}', '{"step": "x", "sentences": []}']
)
def test_damaged_samples_cost_themselves_alone(tmp_path, text):
    run = write_run(tmp_path / "run")
    (run / "valid_samples.json").write_text(text)
    row = progress_of(tmp_path)["run"]
    assert row["samples"] == {}
    assert row["steps"] == 351
    assert row["notes"][0].endswith(": no translations of the validation")


def test_damaged_metrics_are_noted(tmp_path):
    run = write_run(tmp_path / "run", summary=RUNNING)
    (run / "metrics.csv").write_text("step,train/loss\n1,x\n")
    row = progress_of(tmp_path)["run"]
    assert (row["steps"], row["valid_bleu"], len(row["notes"])) == (0, None, 1)
