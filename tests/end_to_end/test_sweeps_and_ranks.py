"""Sweeps, and training on several ranks."""

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import offline_wandb
import pytest
import torch
from commands import ROOT, TWELVE_STEPS, TWO_STEPS, command, quick_python
from omegaconf import OmegaConf


def test_the_sweep_command_of_the_readme_trains_every_job(tmp_path):
    arguments = ("attention=additive,dot,general", "trainer.max_epochs=1", f"hydra.sweep.dir={tmp_path}")
    command("train", "-m", *arguments, *TWELVE_STEPS, "logger=local")
    runs = {path.parent.name.split(",")[0]: json.loads(path.read_text()) for path in tmp_path.glob("*/summary.json")}
    assert set(runs) == {"attention=additive", "attention=dot", "attention=general"}
    assert {run["status"] for run in runs.values()} == {"completed"}
    assert len({run["parameters"]["total"] for run in runs.values()}) == 3
    jobs = {path.parent: offline_wandb.read(path.parent) for path in tmp_path.glob("*/summary.json")}
    logged = [job["run"] for job in jobs.values()]
    assert {run["name"] for run in logged} == set(runs)
    assert {run["group"] for run in logged} == {tmp_path.name}
    assert {tag for run in logged for tag in run["tags"] if tag.startswith("attention=")} == set(runs)
    assert len({run["id"] for run in logged}) == 3
    for folder, job in jobs.items():
        check_logged_values(folder, job)


def check_logged_values(folder, logged):
    """Compare what a job gave to W&B with the files in its folder, value by value."""
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    keys = set(rows[0]) - {"epoch", "step", "seconds"}
    assert keys >= {"valid/loss", "valid/bleu", "valid/perplexity"}
    for key in keys:
        values = [float(row[key]) for row in rows if row[key]]
        assert values, key
        assert logged["history"][key] == pytest.approx(values), key
    summary = json.loads((folder / "summary.json").read_text())
    assert logged["summary"]["valid/bleu"] == {"max": pytest.approx(max(logged["history"]["valid/bleu"]))}
    assert logged["summary"]["best_step"] == summary["best"]["step"]
    assert logged["summary"]["parameters"] == summary["parameters"]["total"]
    assert logged["summary"]["code"] == summary["code"][-1]
    score = OmegaConf.load(folder / ".hydra" / "config.yaml").attention.score
    assert logged["config"]["attention"]["score"]["_target_"] == score._target_


@pytest.mark.slow
def test_a_failing_job_does_not_stop_the_others_and_fails_the_sweep(tmp_path):
    arguments = ("size.encoder=10", "attention=dot,general", "trainer.max_epochs=1", f"hydra.sweep.dir={tmp_path}")
    done = command("train", "-m", *arguments, *TWELVE_STEPS, check=False)
    assert done.returncode == 1
    assert "error: attention=dot: the query's size" in done.stderr
    assert "Error executing job" not in done.stderr
    states = [json.loads(path.read_text())["status"] for path in tmp_path.glob("*/summary.json")]
    assert sorted(states) == ["completed", "failed"]


@pytest.mark.slow
def test_a_completed_sweep_is_scored_without_retraining(tmp_path):
    sweep = ("-m", "attention=dot", *TWO_STEPS, "data.tests.test.count=5", f"hydra.sweep.dir={tmp_path}")
    command("train", *sweep)
    (job,) = tmp_path.glob("attention*")
    trained = (job / "summary.json").read_text()
    command("train", *sweep, "score_test=true", "threads=1")
    assert list(tmp_path.glob("attention*")) == [job]
    assert (job / "summary.json").read_text() == trained
    assert json.loads((job / "test" / "scores.json").read_text())["sentences"] == 5
    done = command("train", *sweep, "score_test=true")
    assert "1 job, 1 completed already" in done.stderr


@pytest.mark.slow
def test_a_search_for_settings_goes_on_where_it_stopped_and_names_the_best(tmp_path):
    search = ("hparams_search=optuna", *TWO_STEPS, f"hydra.sweep.dir={tmp_path}")
    command("train", *search, "hydra.sweeper.n_trials=2")
    done = command("train", *search, "hydra.sweeper.n_trials=3")
    assert "2 jobs, 2 completed already" in done.stderr
    assert "3 jobs, 2 completed already" in done.stderr
    scores = {}
    for summary in tmp_path.glob("*/summary.json"):
        settings = OmegaConf.load(summary.parent / ".hydra" / "config.yaml")
        assert 0.0003 <= settings.optimizer.lr <= 0.01
        assert 0 <= settings.dropout <= 0.5
        scores[json.loads(summary.read_text())["best"]["score"]] = (settings.optimizer.lr, settings.dropout)
    best = OmegaConf.load(tmp_path / "optimization_results.yaml")
    assert len(scores) == 3
    assert best.best_value == max(scores)
    assert tuple(best.best_params.values()) == scores[max(scores)]


def find_process(text: str) -> int:
    """Return the id of the process whose command line contains a text, of a client if it runs in a copy."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                line = (place / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in line and "hydra.mode=RUN" in line:
                return int(place.name)
    raise LookupError(text)


HANG_UP = pytest.param(signal.SIGHUP, marks=pytest.mark.slow)


def start_training(*arguments: str, python: str | None = None) -> subprocess.Popen:
    """Start training with the default handlers of SIGINT and SIGHUP, quickly or with a Python that is given.

    A background shell ignores Ctrl-C, and nohup ignores SIGHUP; child processes would inherit both.
    """
    return subprocess.Popen(
        [python or quick_python(), ROOT / "train.py", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: (
            signal.signal(signal.SIGINT, signal.default_int_handler),
            signal.signal(signal.SIGHUP, signal.SIG_DFL),
        ),
    )


def load_weights(folder):
    return torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.slow
def test_a_restarted_sweep_resumes_killed_jobs_and_skips_completed_ones(tmp_path):
    arguments = ("-m", "attention=dot,general", "trainer.max_epochs=20", *TWELVE_STEPS)
    sweep = [quick_python(), ROOT / "train.py", *arguments, f"hydra.sweep.dir={tmp_path}/sweep"]
    running = subprocess.Popen(sweep, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    for line in running.stderr:
        if "epoch 3," in line and "validated" in line:  # epoch 2 is stored
            os.kill(find_process(f"{tmp_path}/sweep/attention=dot"), signal.SIGKILL)
            break
    _, stderr = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "error: 1 of 2 jobs failed: attention=dot: killed" in stderr
    assert [job["status"] for job in json.loads((tmp_path / "sweep/sweep.json").read_text())["jobs"]] == [
        "interrupted",
        "completed",
    ]
    killed, completed = sorted(tmp_path.glob("sweep/attention*"))
    finished = (completed / "summary.json").read_text()
    done = subprocess.run(sweep, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=120, check=True)
    assert "2 jobs, 1 completed already" in done.stderr
    assert "epoch 0," not in done.stderr  # training resumes after the checkpoint
    assert (completed / "summary.json").read_text() == finished
    command("train", "attention=dot", "trainer.max_epochs=20", *TWELVE_STEPS, f"hydra.run.dir={tmp_path}/whole")
    for name, value in load_weights(tmp_path / "whole").items():
        torch.testing.assert_close(load_weights(killed)[name], value, rtol=0.0, atol=0.0)


@pytest.mark.slow
def test_two_jobs_of_two_ranks_each_run_in_parallel(tmp_path):
    arguments = ("attention=dot,general", "trainer=ddp_cpu", "trainer.max_epochs=1", "hydra.launcher.n_jobs=2")
    command("train", "-m", *arguments, *TWELVE_STEPS, f"hydra.sweep.dir={tmp_path}")
    runs = {path.parent.name.split(",")[0]: json.loads(path.read_text()) for path in tmp_path.glob("*/summary.json")}
    assert {name: run["status"] for name, run in runs.items()} == {
        "attention=dot": "completed",
        "attention=general": "completed",
    }
    assert {run["steps"] for run in runs.values()} == {12}
    assert all("validated" in path.read_text() for path in tmp_path.glob("*/output.log"))


@pytest.mark.parametrize("sent", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM, HANG_UP])
def test_a_stop_signal_ends_a_sweep_and_its_jobs_and_records_their_status(tmp_path, sent):
    arguments = ("-m", "attention=dot,general", "trainer.max_epochs=1000", *TWELVE_STEPS, f"hydra.sweep.dir={tmp_path}")
    running = start_training(*arguments)
    for line in running.stderr:
        if "epoch 1," in line:
            running.send_signal(sent)
            break
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 128 + sent, stderr
    assert [job["status"] for job in json.loads((tmp_path / "sweep.json").read_text())["jobs"]] == [
        "interrupted",
        "waiting",
    ]
    with pytest.raises(LookupError):
        find_process(str(tmp_path))


@pytest.mark.slow
def test_a_table_is_written_row_by_row(tmp_path):
    arguments = ("+table=meng2016_table1", "seed=1,2", "data.tests.test.count=10")
    folders = (f"hydra.sweep.dir={tmp_path}/table", f"pretraining_folder={tmp_path}/stages")
    command("train", "-m", *arguments, *TWO_STEPS, *folders)
    table = json.loads((tmp_path / "table/table.json").read_text())
    assert [row["row"] for row in table["rows"]] == ["Groundhog", "RNNsearch*", "NMT_IA"]
    for row in table["rows"]:
        scores = [
            json.loads((tmp_path / "table" / run["folder"] / "test/scores.json").read_text())["scores"]
            for run in row["runs"]
        ]
        assert row["n"] == 2
        assert row["perplexity"]["mean"] == pytest.approx(sum(score["perplexity"] for score in scores) / 2)
        assert row["perplexity"]["deviation"] > 0
    text = (tmp_path / "table/table.md").read_text()
    assert "| RNNsearch* |" in text
    assert "± " in text
    assert "clipping: not said" in text
    assert not list((tmp_path / "stages").glob("*/summary.json"))  # rows that were trained earlier serve as stages


@pytest.mark.slow
def test_a_repeated_run_ends_with_the_same_weights(tmp_path):
    command("train", *TWELVE_STEPS, "attention=dot", "trainer.max_epochs=1", f"hydra.run.dir='{tmp_path}/a=b,c'")
    again = command("train", f"run={tmp_path}/a=b,c", f"hydra.run.dir={tmp_path}/again")
    assert "not as in" not in again.stderr
    for name, value in load_weights(tmp_path / "a=b,c").items():
        torch.testing.assert_close(load_weights(tmp_path / "again")[name], value, rtol=0.0, atol=0.0)
    other = command("train", f"run={tmp_path}/again", "seed=2", f"hydra.run.dir={tmp_path}/other")
    assert "not as in" in other.stderr
    assert "seed" in other.stderr
    assert "run=/nowhere: has no .hydra/overrides.yaml" in command("train", "run=/nowhere", check=False).stderr


@pytest.mark.parametrize("normalize", ["words", pytest.param("sentences", marks=pytest.mark.slow)])
def test_two_ranks_train_the_same_weights_as_one(tmp_path, normalize):
    shared = (*TWELVE_STEPS, "trainer.max_epochs=2", "trainer.log_every_n_steps=1", f"loss.normalize={normalize}")
    command("train", *shared, "trainer=cpu", f"hydra.run.dir={tmp_path}/one")
    command("train", *shared, "trainer=ddp_cpu", f"hydra.run.dir={tmp_path}/two")
    one, two = (torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True) for name in ("one", "two"))
    assert one["global_step"] == two["global_step"] == 24
    for name, value in one["state_dict"].items():
        torch.testing.assert_close(
            two["state_dict"][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )
    scores = [
        [row for row in csv.DictReader((tmp_path / name / "metrics.csv").open()) if row["valid/bleu"]]
        for name in ("one", "two")
    ]
    for single, double in zip(*scores, strict=True):
        for name in ("valid/loss", "valid/perplexity", "valid/bleu"):
            assert float(double[name]) == pytest.approx(float(single[name]), rel=1e-4), name
    curves = [read_values(tmp_path / name, "train/loss") for name in ("one", "two")]
    assert len(curves[0]) == 24
    assert curves[0][0] - curves[0][-1] > 0.1
    assert curves[1] == pytest.approx(curves[0], rel=1e-4)


@pytest.mark.slow
def test_a_rank_uses_the_configured_number_of_threads(tmp_path, monkeypatch):
    """Lightning's launcher would divide all cores among the ranks, so that one rank gets all of them."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    several = (os.cpu_count() or 1) + 1
    for number, threads in enumerate((1, several)):
        folder = tmp_path / str(number)
        arguments = (f"threads={threads}", "trainer=ddp_cpu", "trainer.devices=1", f"hydra.run.dir={folder}")
        command("train", *TWO_STEPS, *arguments)
        machine = json.loads((folder / "summary.json").read_text())["machine"]
        assert (machine["threads"], machine["ranks"]) == (threads, 1)


def read_values(folder, column):
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


@pytest.mark.slow
def test_validation_is_the_same_on_three_ranks(tmp_path):
    """The split is uneven, and two of the ranks have no sentence of the last batch."""
    command("train", *TWELVE_STEPS, "trainer.max_epochs=4", "optimizer.lr=0.01", f"hydra.run.dir={tmp_path}/learnt")
    shared = (*TWELVE_STEPS, f"init_from={tmp_path}/learnt", "optimizer.lr=0", "data.valid_batches.size=5")
    for ranks in (1, 3):
        where = (f"trainer.devices={ranks}", f"hydra.run.dir={tmp_path}/{ranks}")
        command("train", *shared, "trainer.max_epochs=1", "trainer=ddp_cpu", *where)
    for name in ("valid/bleu", "valid/loss", "valid/perplexity"):
        (single,), (triple,) = (read_values(tmp_path / str(ranks), name) for ranks in (1, 3))
        assert single > 0
        assert triple == pytest.approx(single, rel=1e-12 if name == "valid/bleu" else 1e-6)


@pytest.mark.parametrize("sent", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM, HANG_UP])
def test_a_stop_signal_marks_a_run_as_interrupted(tmp_path, sent):
    arguments = (
        "size=tiny",
        "logger=none",
        "data.train.count=2000",
        "trainer.max_epochs=1000",
        f"hydra.run.dir={tmp_path}",
    )
    program = start_training(*arguments)
    for line in program.stderr:
        if "epoch 1" in line and "validated" in line:  # the checkpoint of epoch 0 exists by then
            program.send_signal(sent)
            break
    _, stderr = program.communicate(timeout=60)
    assert program.returncode == 128 + sent
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "interrupted"
    assert (tmp_path / "checkpoints" / "last.ckpt").is_file()
    assert "Traceback" not in stderr
