"""Resume after a kill, a stop signal or a full disk: the run ends with the same results."""

import csv
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from commands import ROOT, quick_python
from filelock import FileLock

from nmt.training.csv_logger import CsvLogger

SETTINGS = (
    "size=tiny", "dropout=0.2", "data.train.count=500", "data.valid.count=40", "data.batches.size=25",
    "trainer.max_epochs=14", "trainer.val_check_interval=7", "trainer.log_every_n_steps=3", "optimizer.lr=0.005",
    "callbacks.last.every_steps=2", "callbacks.early_stopping.patience=200", "logger=none",
)  # fmt: skip
KILLS = 6


def start_run(folder: Path, *more: str, python: str | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [python or quick_python(), ROOT / "train.py", *SETTINGS, *more, f"hydra.run.dir={folder}"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def train_to_end(folder: Path, *more: str, python: str | None = None) -> str:
    running = start_run(folder, *more, python=python)
    try:
        _, stderr = running.communicate(timeout=200)
    finally:
        running.kill()
    assert running.returncode == 0, stderr
    return stderr


def read_metrics(folder: Path) -> list[dict[str, str]]:
    """Return the logged rows without the throughput columns."""
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [{key: row[key] for key in sorted(row) if "per_second" not in key} for row in csv.DictReader(file)]


def load_weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)["state_dict"]


def read_summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, testrun_uid):
    """A run without interruption, in a process of its own, which draws another seed for hashes; workers share it."""
    folder = tmp_path_factory.getbasetemp().parent / f"uninterrupted_{testrun_uid}"
    with FileLock(f"{folder}.lock"):
        if not (folder / "summary.json").exists() or read_summary(folder)["status"] != "completed":
            shutil.rmtree(folder, ignore_errors=True)  # or the next worker would resume it
            train_to_end(folder, python=sys.executable)
    return folder


def assert_same_results(folder: Path, uninterrupted: Path) -> None:
    for name in ("last", "best"):
        for parameter, value in load_weights(uninterrupted, name).items():
            torch.testing.assert_close(load_weights(folder, name)[parameter], value, rtol=0.0, atol=0.0)
    assert read_metrics(folder) == read_metrics(uninterrupted)
    assert read_summary(folder)["status"] == "completed"
    assert {key: read_summary(folder)[key] for key in ("steps", "epochs", "best")} == {
        key: read_summary(uninterrupted)[key] for key in ("steps", "epochs", "best")
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(uninterrupted, tmp_path, seed):
    draw, folder, kills = random.Random(seed), tmp_path / "run", []
    while len(kills) < KILLS:
        running = start_run(folder)
        for line in running.stderr:
            if "run folder" in line:
                break
        delay = draw.uniform(0.0, 1.1)
        time.sleep(delay)
        sent = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        running.send_signal(sent)
        _, stderr = running.communicate(timeout=60)
        kills.append((sent.name, round(delay, 2), running.returncode))
        assert running.returncode in (-sent, 128 + sent, 0), (
            stderr
        )  # -sent: killed before training started or after it ended
        if read_summary(folder)["status"] == "completed":
            break
    stderr = train_to_end(folder)
    print(kills)
    assert_same_results(folder, uninterrupted)
    assert len(kills) == KILLS, f"completed after {kills}"
    assert "completed" in stderr


def log_unsaved_validation(folder: Path, step: int) -> None:
    """Imitate a restart that is killed after a validation is logged and before it is saved."""
    log = CsvLogger(str(folder / "metrics.csv"))
    log.keep_until(step)
    log.log_metrics({"valid/loss": 1.0}, step)


SIGNAL_IN_SECOND_VALIDATION = """
import os, runpy, signal, sys
sys.path.insert(0, os.getcwd())
from nmt.training import last_checkpoint

def at_the_second(hook, then):
    def hooked(self, trainer, module, *rest):
        now = trainer.validating and trainer.global_step == 14
        if now and then == signal.SIGTERM:
            self.requests._receive(then, None)
        hook(self, trainer, module, *rest)
        if now and then == signal.SIGKILL:
            os.kill(os.getpid(), then)
    return hooked

moment, number = sys.argv.pop(1), int(sys.argv.pop(1))
setattr(last_checkpoint.LastCheckpoint, moment, at_the_second(getattr(last_checkpoint.LastCheckpoint, moment), number))
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def run_until_signal(moment: str, sent: signal.Signals, folder: Path, *more: str) -> int:
    """Return the exit status of a run that receives the signal in that hook of its second validation."""
    program = folder.with_suffix(".py")
    program.write_text(SIGNAL_IN_SECOND_VALIDATION)
    command = [quick_python(), program, moment, str(int(sent)), ROOT / "train.py"]
    settings = [*SETTINGS, *more, f"hydra.run.dir={folder}"]
    return subprocess.run([*command, *settings], cwd=ROOT, timeout=100).returncode


@pytest.mark.slow
def test_an_interrupted_validation_is_repeated_on_resume(tmp_path):
    folder = tmp_path / "run"
    long = ("data.valid.count=1500", "trainer.max_epochs=2", "callbacks.last.every_steps=null")
    train_to_end(tmp_path / "whole", *long)
    assert run_until_signal("on_validation_batch_end", signal.SIGTERM, folder, *long) == 143
    loops = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["loops"]["fit_loop"]
    assert loops["epoch_loop.val_loop.batch_progress"]["current"]["ready"] == 1
    log_unsaved_validation(folder, loops["epoch_loop.state_dict"]["_batches_that_stepped"])
    assert "from step 14" in train_to_end(folder, *long)
    assert_same_results(folder, tmp_path / "whole")


@pytest.mark.slow
def test_a_repeated_validation_is_counted_once(tmp_path):
    """Interrupt a validation, repeat and save it on resume, then kill the run.

    The checkpoint then records a finished validation. It contains the trained weights, not the validated averages.
    """
    folder, more = tmp_path / "run", ("callbacks=ema", "trainer.max_epochs=3")
    train_to_end(tmp_path / "whole", *more)
    assert run_until_signal("on_validation_batch_end", signal.SIGTERM, folder, *more) == 143
    assert run_until_signal("on_validation_end", signal.SIGKILL, folder, *more) == -signal.SIGKILL
    assert "from step 14" in train_to_end(folder, *more)
    assert_same_results(folder, tmp_path / "whole")


@pytest.mark.slow
def test_a_stop_signal_saves_a_checkpoint_and_loses_no_step(uninterrupted, tmp_path):
    folder, never = tmp_path / "run", ("callbacks.last.every_steps=null",)
    running = start_run(folder, *never)
    for line in running.stderr:
        if "epoch 2" in line:
            break
    running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 143, stderr
    assert read_summary(folder)["status"] == "interrupted"
    stored = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["global_step"]
    assert f"from step {stored}" in train_to_end(folder, *never)
    assert_same_results(folder, uninterrupted)


@pytest.mark.slow
def test_sigusr1_saves_a_checkpoint_and_training_continues(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    running = start_run(folder, "callbacks.last.every_steps=null")
    for line in running.stderr:
        if "epoch 1" in line:
            running.send_signal(signal.SIGUSR1)
            break
    _, stderr = running.communicate(timeout=100)
    assert running.returncode == 0, stderr
    assert "SIGUSR1: a checkpoint is saved after this batch" in stderr
    assert_same_results(folder, uninterrupted)


@pytest.mark.slow
def test_a_run_resumed_for_more_epochs_ends_like_one_longer_run(uninterrupted, tmp_path):
    """The run folder is moved before the restart and reached through a symbolic link."""
    (tmp_path / "home").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    folder = tmp_path / "home" / "run"
    train_to_end(tmp_path / "elsewhere", "trainer.max_epochs=3")
    (tmp_path / "elsewhere").rename(folder)
    assert "completed already" in train_to_end(folder, "trainer.max_epochs=3")
    stderr = train_to_end(folder)
    assert "from step 60" in stderr
    assert "won't be reloaded" not in stderr  # Lightning's warning about the best scores so far
    assert_same_results(folder, uninterrupted)


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_run_resumes_with_free_space(uninterrupted, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        not shutil.which("mount")
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1400k", "tmpfs", str(disk)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a small file system cannot be mounted here")
    try:
        folder = disk / "run"
        running = start_run(folder)
        _, stderr = running.communicate(timeout=100)
        assert running.returncode == 1
        assert "No space left on device" in stderr.splitlines()[-1]
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        train_to_end(folder)
        assert_same_results(folder, uninterrupted)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [".lock", "metrics.csv"])
def test_a_run_that_loses_its_lock_or_metrics_ends_and_another_resumes_it(uninterrupted, tmp_path, name):
    folder, more = tmp_path / "run", ["trainer.max_epochs=10"] if name == "metrics.csv" else []
    running = start_run(folder, *more)
    for line in running.stderr:
        if "epoch 1" in line:
            break
    (folder / name).unlink()
    if name == "metrics.csv":
        _, stderr = running.communicate(timeout=60)
        assert "rows are lost" in train_to_end(folder, *more)
    else:
        train_to_end(folder)  # while the first one has not noticed yet
        _, stderr = running.communicate(timeout=60)
        assert_same_results(folder, uninterrupted)
    assert running.returncode == 1
    assert stderr.endswith("Fix: give the same command again once no other process trains there\n")
