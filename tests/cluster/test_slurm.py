"""Jobs and sweeps on a real SLURM cluster of two nodes on this machine."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import offline_wandb
import pytest
import torch
from code_blocks import find_blocks
from commands import ROOT, TWELVE_STEPS, command
from slurm import Cluster, explain_missing, start_two_nodes, wait_until
from small_project import run_shell, write_small_project

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

TINY = (*TWELVE_STEPS, "trainer.max_epochs=2", "trainer.log_every_n_steps=1")
WITHOUT_GPUS = ("trainer.accelerator=cpu", "trainer.precision=32-true")
NODES_ARE_HERE = {"MASTER_ADDR": "127.0.0.1"}  # because this machine's network cannot resolve the name n1

needs_submitit = pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None,
    reason="hydra-submitit-launcher is not installed: pip install -r requirements-dev.txt",
)


@pytest.fixture(scope="module")
def cluster():
    if reason_to_skip := explain_missing():
        pytest.skip(reason_to_skip)
    with start_two_nodes() as running:
        running.environment.update(NODES_ARE_HERE)
        yield running


def write_batch_script(folder: Path, *arguments: str, nodes: int = 2) -> Path:
    """Write an sbatch script like that of docs/scaling.md; its output goes to the file `output` beside it."""
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


def read_summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def read_metrics(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_job_on_two_nodes_is_one_run_with_the_weights_of_one_process(tmp_path, cluster: Cluster):
    command("train", *TINY, "trainer=cpu", f"hydra.run.dir={tmp_path}/one")
    script = write_batch_script(
        tmp_path / "job", *TINY, "trainer=slurm", *WITHOUT_GPUS, f"hydra.run.dir={tmp_path}/two"
    )
    job = cluster.submit(script)
    state = cluster.wait_for(job, seconds=150)
    log = (tmp_path / "job" / "output").read_text()
    assert state == "COMPLETED", log
    assert "0: Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2" in log
    assert "1: Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2" in log
    assert cluster.count_nodes(job) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "job"}
    one, two = read_summary(tmp_path / "one"), read_summary(tmp_path / "two")
    assert one["status"] == two["status"] == "completed"
    assert one["steps"] == two["steps"] == 24
    assert two["last"]["valid/perplexity"] == pytest.approx(one["last"]["valid/perplexity"], rel=1e-4)
    assert two["last"]["valid/bleu"] == pytest.approx(one["last"]["valid/bleu"], rel=1e-4)
    alone, together = read_metrics(tmp_path / "one"), read_metrics(tmp_path / "two")
    assert [row["step"] for row in together] == [row["step"] for row in alone]  # a second writer would add rows
    assert sum(bool(row["valid/bleu"]) for row in together) == 2
    weights = [
        torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for name in ("one", "two")
    ]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_preempted_job_saves_is_requeued_and_resumes_the_same_run(tmp_path, cluster: Cluster, nodes):
    settings = (
        *TINY,
        *WITHOUT_GPUS,
        "threads=1",
        "trainer=slurm",
        "trainer.max_epochs=8",
        "dropout=0.1",
        "logger=local",
        "callbacks.translations.count=1",  # a drawing takes longer than the epoch
    )
    script = write_batch_script(tmp_path / "job", *settings, f"hydra.run.dir={tmp_path}/run", nodes=nodes)
    job, output = cluster.submit(script, "--requeue", "--open-mode=append"), tmp_path / "job" / "output"
    wait_until(lambda: output.is_file() and "epoch 1," in output.read_text(), 120, lambda: "the job does not begin")
    cluster.run("scancel", "--signal=USR1", job)
    if nodes == 1:  # now, because the job waits until it is requeued
        whole = write_batch_script(tmp_path / "whole_job", *settings, f"hydra.run.dir={tmp_path}/whole", nodes=1)
        uninterrupted = cluster.submit(whole)
    wait_until(lambda: cluster.count_restarts(job) == 1, 60, output.read_text)
    state = cluster.wait_for(job, "COMPLETED", "FAILED", seconds=200)
    log = output.read_text()
    assert state == "COMPLETED", log
    stopped = int(re.search(r"resuming from .*last.ckpt, from step (\d+)", log)[1])
    assert 24 <= stopped < 96  # resumed after the logged epoch, not before its checkpoint
    assert (read_summary(tmp_path / "run")["status"], read_summary(tmp_path / "run")["steps"]) == ("completed", 96)
    logged = [int(row["step"]) for row in read_metrics(tmp_path / "run") if row["train/loss"]]
    assert logged == list(range(96))
    ids = [folder.name.rpartition("-")[2] for folder in (tmp_path / "run" / "wandb").glob("offline-run-*")]
    assert len(ids) == 2
    assert ids[0] == ids[1]
    if nodes == 1:
        assert cluster.wait_for(uninterrupted, seconds=200) == "COMPLETED"
        one, other = (
            torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
            for name in ("whole", "run")
        )
        for name, value in one.items():
            torch.testing.assert_close(other[name], value, rtol=0.0, atol=0.0)


def submit_sweep(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess:
    """Run a sweep with submitit, which polls its jobs until they have ended."""
    return subprocess.run(
        [sys.executable, "train.py", "-m", "hydra/launcher=submitit_slurm", *TINY, *arguments],
        cwd=ROOT,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def run_sweep(cluster: Cluster, *arguments: str) -> None:
    done = submit_sweep(cluster, *arguments)
    assert done.returncode == 0, done.stderr


@needs_submitit
def test_a_submitit_sweep_runs_its_jobs_on_the_cluster(tmp_path, cluster: Cluster):
    sweep = ("attention=dot,general", "logger=local", "callbacks.translations.count=1", f"hydra.sweep.dir={tmp_path}")
    run_sweep(cluster, *sweep)
    folders = {re.search(r"attention=(\w+)", str(path))[1]: path.parent for path in tmp_path.glob("*/summary.json")}
    assert set(folders) == {"dot", "general"}
    summaries = [read_summary(folder) for folder in folders.values()]
    assert [(each["status"], each["steps"]) for each in summaries] == [("completed", 24)] * 2
    assert summaries[0]["parameters"]["total"] != summaries[1]["parameters"]["total"]
    logs = [path.read_text() for path in sorted(tmp_path.glob(".submitit/*_[01]/*_log.err"))]
    assert len(logs) == 2
    assert all("epoch 1, step 24, validated" in text for text in logs)
    logged = {name: offline_wandb.read(folder)["run"] for name, folder in folders.items()}
    assert {run["group"] for run in logged.values()} == {tmp_path.name}
    assert [f"attention={name}" in run["name"] for name, run in logged.items()] == [True, True]
    run_sweep(cluster, *sweep)
    assert [read_summary(folder) for folder in folders.values()] == summaries  # completed jobs are skipped


@needs_submitit
def test_a_submitit_job_may_use_two_nodes(tmp_path, cluster: Cluster):
    over_both = ("hydra.launcher.nodes=2", "trainer=slurm", *WITHOUT_GPUS)
    run_sweep(cluster, "attention=dot", *over_both, f"hydra.sweep.dir={tmp_path}")
    (folder,) = (path.parent for path in tmp_path.glob("*/summary.json"))
    assert (read_summary(folder)["status"], read_summary(folder)["steps"]) == ("completed", 24)
    logs = "".join(path.read_text() for path in tmp_path.glob(".submitit/*/*_log.err"))
    assert "MEMBER: 2/2" in logs


@needs_submitit
def test_a_failed_job_of_a_submitit_sweep_is_one_line_with_its_log(tmp_path, cluster: Cluster):
    done = submit_sweep(cluster, "attention=dot", "init_from=/nowhere", f"hydra.sweep.dir={tmp_path}")
    (log,) = tmp_path.glob("*attention=dot*/train.log")
    reason = "init_from=/nowhere: no such folder or checkpoint"
    *_, last = done.stderr.strip().split("\n")
    assert last.startswith(f"error: {log}: the job failed: {reason} (the same command skips")
    assert (done.returncode, reason in log.read_text()) == (1, True)


HERE = {  # what docs/scaling.md writes, and what is written on two nodes with a core for each task and no GPU
    r"#SBATCH --gpus-per-node=\d\n|hydra.launcher.gpus_per_node=1 ": "",
    "tasks-per-node=4": "tasks-per-node=1",
    r"(cpus.per.task=|CPUS_PER_TASK=)\d+": r"\g<1>1",
    "trainer=(slurm|gpu)": r"trainer=\1 trainer.accelerator=cpu trainer.precision=32-true",
    "partition=gpu": "partition=all",
    "n_jobs=4": "n_jobs=2 trainer.max_steps=12 trainer.max_epochs=12 callbacks.early_stopping.patience=12",
    "attention=dot,general,coverage,temporal seed=1,2,3": "attention=dot,general seed=1",
    "attention=dot,general seed=1,2 ": "attention=dot,general seed=1 ",
    "make .venv/installed && ": "",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Return a small project at the place that docs/scaling.md calls /shared/nmt."""
    place = tmp_path_factory.mktemp("shared") / "nmt"
    write_small_project(place)
    (place / ".venv" / "bin").mkdir(parents=True)
    (place / ".venv" / "bin" / "activate").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
    return place


def read_documented(project: Path, text: str) -> str:
    """Return the code block of docs/scaling.md with a text, for this cluster."""
    (block,) = (block.text for block in find_blocks(ROOT / "docs" / "scaling.md") if text in block.text)
    for pattern, replacement in {"/shared/": f"{project.parent}/", **HERE}.items():
        block = re.sub(pattern, replacement, block)
    return dedent(block)


def submit_documented(cluster: Cluster, project: Path, text: str) -> str:
    (project / "script.sbatch").write_text(read_documented(project, text))
    return cluster.submit(project / "script.sbatch", f"--chdir={project}", f"--output={project}/output")


def wait_until_completed(cluster: Cluster, project: Path, job: str) -> None:
    assert cluster.wait_for(job, "COMPLETED", "FAILED", seconds=200) == "COMPLETED", (project / "output").read_text()


def test_the_documented_script_trains_one_model_on_two_nodes(cluster: Cluster, project):
    wait_until_completed(cluster, project, submit_documented(cluster, project, "--job-name=first"))
    assert read_summary(project.parent / "runs" / "first")["status"] == "completed"
    assert "MEMBER: 2/2" in (project / "output").read_text()


def check_scored(sweep: Path, count: int) -> None:
    runs = [path.parent for path in sweep.glob("*/summary.json")]
    assert [read_summary(run)["status"] for run in runs] == ["completed"] * count
    assert all((run / "test" / "scores.json").is_file() for run in runs)


def test_the_documented_script_runs_a_sweep_within_one_job(cluster: Cluster, project):
    """It is warned of the end of its time, and goes on when it is requeued."""
    sweep = project / "multirun" / "node"
    job = submit_documented(cluster, project, "--job-name=sweep")
    wait_until(lambda: sorted(count_validations(sweep))[-2:-1] > [2], 120, lambda: "the jobs do not begin")
    cluster.run("scancel", "--signal=USR1", job)
    wait_until(lambda: cluster.count_restarts(job) == 1, 60, (project / "output").read_text)
    wait_until_completed(cluster, project, job)
    check_scored(sweep, 2)
    logs = [path.read_text() for path in sweep.glob("*/train.log")]
    assert [log.count("resuming from") for log in logs] == [1, 1]
    assert "the job was not requeued" not in "".join([*logs, (project / "output").read_text()])


def count_validations(sweep: Path) -> list[int]:
    return [path.read_text().count("validated") for path in sweep.glob("*/train.log")]


@needs_submitit
def test_the_documented_command_submits_the_jobs_of_a_sweep(cluster: Cluster, project):
    run_shell(project, read_documented(project, "hydra/launcher=submitit_slurm"), sys.executable, **cluster.environment)
    check_scored(project / "multirun" / "slurm", 2)
