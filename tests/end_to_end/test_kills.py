"""Runs killed, told to stop, or left without room on the disk end, once started again, as if nothing had happened."""

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
from commands import ROOT

from nmt.training.csv_logger import CsvLogger

SETTINGS = (
    "size=tiny", "dropout=0.2", "data.train.count=500", "data.valid.count=40", "data.batches.size=25",
    "trainer.max_epochs=24", "trainer.val_check_interval=7", "trainer.log_every_n_steps=3", "optimizer.lr=0.005",
    "callbacks.last.every_steps=2", "callbacks.early_stopping.patience=200", "logger=none",
)  # fmt: skip
KILLS = 20


def started(folder: Path, *more: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, ROOT / "train.py", *SETTINGS, *more, f"hydra.run.dir={folder}"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def trained(folder: Path, *more: str) -> str:
    running = started(folder, *more)
    _, said = running.communicate(timeout=200)
    assert running.returncode == 0, said
    return said


def metrics(folder: Path) -> list[dict[str, str]]:
    """All but how fast it was."""
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [{key: row[key] for key in sorted(row) if "per_second" not in key} for row in csv.DictReader(file)]


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)["state_dict"]


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    trained(folder)
    return folder


def assert_the_same(folder: Path, whole: Path) -> None:
    for name in ("last", "best"):
        for parameter, value in weights(whole, name).items():
            torch.testing.assert_close(weights(folder, name)[parameter], value, rtol=0.0, atol=0.0)
    assert metrics(folder) == metrics(whole)
    assert summary(folder)["status"] == "completed"
    assert {key: summary(folder)[key] for key in ("steps", "epochs", "best")} == {
        key: summary(whole)[key] for key in ("steps", "epochs", "best")
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_a_run_killed_at_random_moments_ends_as_one_never_killed(whole, tmp_path, seed):
    draw, folder, kills = random.Random(seed), tmp_path / "run", []
    while len(kills) < KILLS:
        running = started(folder)
        for line in running.stderr:
            if "run folder" in line:
                break
        delay = draw.uniform(0.0, 1.1)
        time.sleep(delay)
        sent = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        running.send_signal(sent)
        _, said = running.communicate(timeout=60)
        kills.append((sent.name, round(delay, 2), running.returncode))
        assert running.returncode in (-sent, 128 + sent, 0), said  # -sent: before training, or when it had ended
        if summary(folder)["status"] == "completed":
            break
    said = trained(folder)
    print(kills)
    assert_the_same(folder, whole)
    assert len(kills) == KILLS, f"completed after {kills}"
    assert "completed" in said


def validated_then_killed(folder: Path, step: int) -> None:
    """As if the run had been started again and killed after the validation was logged, before it was saved."""
    log = CsvLogger(str(folder / "metrics.csv"))
    log.keep_until(step)
    log.log_metrics({"valid/loss": 1.0}, step)


BROKEN_OFF_THEN_KILLED = """
import os, runpy, signal, sys
from nmt.training import last_checkpoint

def at_the_second(hook, then):
    def hooked(self, trainer, module, *rest):
        now = self.validating and trainer.global_step == 14
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


def stopped_at(moment: str, sent: signal.Signals, folder: Path, *more: str) -> int:
    """The status of a run that gets the signal there, in the second validation."""
    command = [sys.executable, "-c", BROKEN_OFF_THEN_KILLED, moment, str(int(sent)), ROOT / "train.py"]
    settings = [*SETTINGS, *more, f"hydra.run.dir={folder}"]
    return subprocess.run([*command, *settings], cwd=ROOT, timeout=100).returncode


@pytest.mark.slow
def test_a_validation_that_was_broken_off_is_done_again(tmp_path):
    folder = tmp_path / "run"
    long = ("data.valid.count=1500", "trainer.max_epochs=2", "callbacks.last.every_steps=null")
    trained(tmp_path / "whole", *long)
    assert stopped_at("on_validation_batch_end", signal.SIGTERM, folder, *long) == 143
    loops = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["loops"]["fit_loop"]
    assert loops["epoch_loop.val_loop.batch_progress"]["current"]["ready"] == 1
    validated_then_killed(folder, loops["epoch_loop.state_dict"]["_batches_that_stepped"])
    assert "from step 14" in trained(folder, *long)
    assert_the_same(folder, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("callbacks", ["default", "ema"])
def test_a_validation_done_again_is_done_once(callbacks, tmp_path):
    """Broken off, then done again and saved, and killed then: what was saved is of a validation that ended, and of the
    weights that are trained, not of those that are validated."""
    folder, more = tmp_path / "run", (f"callbacks={callbacks}", "trainer.max_epochs=3")
    trained(tmp_path / "whole", *more)
    assert stopped_at("on_validation_batch_end", signal.SIGTERM, folder, *more) == 143
    assert stopped_at("on_validation_end", signal.SIGKILL, folder, *more) == -signal.SIGKILL
    assert "from step 14" in trained(folder, *more)
    assert_the_same(folder, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_told_to_stop_saves_first_and_loses_no_step(whole, tmp_path, sent, status):
    folder, never = tmp_path / "run", ("callbacks.last.every_steps=null",)
    running = started(folder, *never)
    for line in running.stderr:
        if "epoch 2" in line:
            break
    running.send_signal(sent)
    _, said = running.communicate(timeout=60)
    assert running.returncode == status, said
    assert summary(folder)["status"] == "interrupted"
    stored = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["global_step"]
    assert f"from step {stored}" in trained(folder, *never)
    assert_the_same(folder, whole)


@pytest.mark.slow
def test_a_signal_saves_and_the_run_goes_on(whole, tmp_path):
    folder = tmp_path / "run"
    running = started(folder, "callbacks.last.every_steps=null")
    for line in running.stderr:
        if "epoch 1" in line:
            running.send_signal(signal.SIGUSR1)
            break
    _, said = running.communicate(timeout=100)
    assert running.returncode == 0, said
    assert "SIGUSR1: a checkpoint is saved after this batch" in said
    assert_the_same(folder, whole)


@pytest.mark.slow
def test_a_completed_run_given_more_epochs_goes_on_as_if_it_had_had_them_from_the_start(whole, tmp_path):
    """Its folder was moved meanwhile, and is reached by a link."""
    (tmp_path / "home").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    folder = tmp_path / "home" / "run"
    trained(tmp_path / "elsewhere", "trainer.max_epochs=3")
    (tmp_path / "elsewhere").rename(folder)
    assert "completed already" in trained(folder, "trainer.max_epochs=3")
    said = trained(folder)
    assert "from step 60" in said
    assert "won't be reloaded" not in said  # Lightning, of the best scores so far
    assert_the_same(folder, whole)


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(whole, tmp_path):
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
        running = started(folder)
        _, said = running.communicate(timeout=100)
        assert running.returncode == 1
        assert "No space left on device" in said.splitlines()[-1]
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        trained(folder)
        assert_the_same(folder, whole)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
