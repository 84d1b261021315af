"""SLURM, a real one of two nodes on this machine: a job over both, and sweeps whose jobs it runs."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT, TWELVE_STEPS, command
from slurm import Cluster, missing, two_nodes, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

TINY = (*TWELVE_STEPS, "trainer.max_epochs=2", "trainer.log_every_n_steps=1")
WITHOUT_GPUS = ("trainer.accelerator=cpu", "trainer.precision=32-true")
NODES_ARE_HERE = {"MASTER_ADDR": "127.0.0.1"}  # n1 is no name that this machine's network knows

needs_submitit = pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None,
    reason="hydra-submitit-launcher is not installed: pip install -r requirements-dev.txt",
)


@pytest.fixture(scope="module")
def cluster():
    if why := missing():
        pytest.skip(why)
    with two_nodes() as running:
        running.environment.update(NODES_ARE_HERE)
        yield running


def training(folder: Path, *arguments: str, nodes: int = 2) -> Path:
    """A script for sbatch, like that of docs/scaling.md; its output goes to a file `output` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "train.sbatch"
    words = " ".join(f"'{word}'" for word in (sys.executable, str(ROOT / "train.py"), *arguments))
    script.write_text(
        "#!/bin/bash\n"
        f"#SBATCH --nodes={nodes}\n"
        "#SBATCH --ntasks-per-node=1\n"
        f"#SBATCH --chdir={ROOT}\n"
        f"#SBATCH --output={folder}/output\n"
        f"srun --label --kill-on-bad-exit=1 {words}\n"
    )
    return script


def summary_of(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def metrics_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_job_over_two_nodes_learns_what_one_process_does_and_is_one_run(tmp_path, cluster: Cluster):
    command("train", *TINY, "trainer=cpu", f"hydra.run.dir={tmp_path}/one")
    script = training(tmp_path / "job", *TINY, "trainer=slurm", *WITHOUT_GPUS, f"hydra.run.dir={tmp_path}/two")
    job = cluster.submitted(script)
    state = cluster.wait_for(job, seconds=150)
    said = (tmp_path / "job" / "output").read_text()
    assert state == "COMPLETED", said
    assert "0: Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2" in said
    assert "1: Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2" in said
    assert cluster.nodes_of(job) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "job"}
    one, two = summary_of(tmp_path / "one"), summary_of(tmp_path / "two")
    assert one["status"] == two["status"] == "completed"
    assert one["steps"] == two["steps"] == 24
    assert two["last"]["valid/perplexity"] == pytest.approx(one["last"]["valid/perplexity"], rel=1e-4)
    assert two["last"]["valid/bleu"] == pytest.approx(one["last"]["valid/bleu"], rel=1e-4)
    alone, together = metrics_of(tmp_path / "one"), metrics_of(tmp_path / "two")
    assert [row["step"] for row in together] == [row["step"] for row in alone]  # a second writer would add its own
    assert sum(bool(row["valid/bleu"]) for row in together) == 2
    weights = [
        torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for name in ("one", "two")
    ]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_preempted_job_saves_is_queued_again_and_goes_on_as_the_same_run(tmp_path, cluster: Cluster, nodes):
    settings = (
        *TINY,
        *WITHOUT_GPUS,
        "threads=1",
        "trainer=slurm",
        "trainer.max_epochs=20",
        "dropout=0.1",
        "logger=local",
        "callbacks.early_stopping.patience=100",
    )
    script = training(tmp_path / "job", *settings, f"hydra.run.dir={tmp_path}/run", nodes=nodes)
    job, output = cluster.submitted(script, "--requeue", "--open-mode=append"), tmp_path / "job" / "output"
    until(lambda: output.is_file() and "epoch 3," in output.read_text(), 120, lambda: "the job does not begin")
    cluster.ask("scancel", "--signal=USR1", job)
    until(lambda: cluster.restarts_of(job) == 1, 60, output.read_text)
    state = cluster.wait_for(job, "COMPLETED", "FAILED", seconds=200)
    said = output.read_text()
    assert state == "COMPLETED", said
    stopped = int(re.search(r"resuming from .*last.ckpt, from step (\d+)", said)[1])
    assert 48 <= stopped < 240  # after the epoch that was seen, and not before what it stored
    assert (summary_of(tmp_path / "run")["status"], summary_of(tmp_path / "run")["steps"]) == ("completed", 240)
    logged = [int(row["step"]) for row in metrics_of(tmp_path / "run") if row["train/loss"]]
    assert logged == list(range(240))
    ids = [folder.name.rpartition("-")[2] for folder in (tmp_path / "run" / "wandb").glob("offline-run-*")]
    assert len(ids) == 2
    assert ids[0] == ids[1]
    if nodes == 1:
        never = cluster.submitted(training(tmp_path / "job", *settings, f"hydra.run.dir={tmp_path}/whole", nodes=1))
        assert cluster.wait_for(never, seconds=200) == "COMPLETED"
        one, other = (
            torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
            for name in ("whole", "run")
        )
        for name, value in one.items():
            torch.testing.assert_close(other[name], value, rtol=0.0, atol=0.0)


def swept(cluster: Cluster, *arguments: str) -> None:
    """By submitit, which asks about its jobs until they have ended."""
    done = subprocess.run(
        [sys.executable, "train.py", "-m", "hydra/launcher=submitit_slurm", *arguments, *TINY],
        cwd=ROOT,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_submitit
def test_a_sweep_by_submitit_runs_its_jobs_on_the_cluster(tmp_path, cluster: Cluster):
    swept(cluster, "attention=dot,general", f"hydra.sweep.dir={tmp_path}")
    folders = {path.parent.name.split(",")[0]: path.parent for path in tmp_path.glob("*/summary.json")}
    assert set(folders) == {"attention=dot", "attention=general"}
    summaries = [summary_of(folder) for folder in folders.values()]
    assert [(each["status"], each["steps"]) for each in summaries] == [("completed", 24)] * 2
    assert summaries[0]["parameters"]["total"] != summaries[1]["parameters"]["total"]
    logs = [path.read_text() for path in sorted(tmp_path.glob(".submitit/*_[01]/*_log.err"))]
    assert len(logs) == 2
    assert all("epoch 1, step 24, validated" in text for text in logs)
    swept(cluster, "attention=dot,general", f"hydra.sweep.dir={tmp_path}")
    assert [summary_of(folder) for folder in folders.values()] == summaries  # what is completed is left alone


@needs_submitit
def test_a_job_of_submitit_may_be_of_two_nodes(tmp_path, cluster: Cluster):
    over_both = ("hydra.launcher.nodes=2", "trainer=slurm", *WITHOUT_GPUS)
    swept(cluster, "attention=dot", *over_both, f"hydra.sweep.dir={tmp_path}")
    (folder,) = (path.parent for path in tmp_path.glob("*/summary.json"))
    assert (summary_of(folder)["status"], summary_of(folder)["steps"]) == ("completed", 24)
    logs = "".join(path.read_text() for path in tmp_path.glob(".submitit/*/*_log.err"))
    assert "MEMBER: 2/2" in logs
