"""A resumed run sees the same batches as one that was never stopped."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning
import torch
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.data.batches import BatchLoader, BatchPlan
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import Sides
from nmt.system.slurm import requeue
from nmt.training.callbacks import LastValidation
from nmt.training.checkpoint_io import AtomicCheckpointIO
from nmt.training.last_checkpoint import LastCheckpoint

SENTENCES, SIZE = 40, 4  # ten batches an epoch
SAVE = LastCheckpoint._save


class KilledError(Exception):
    pass


def text(seed: int) -> EncodedText:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 9, SENTENCES)
    return EncodedText(random.integers(4, 9, lengths.sum()).astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]))


class Watched(pytorch_lightning.LightningModule):
    """Record its batches, which add up in its one weight."""

    def __init__(self, config: dict):
        super().__init__()
        self.record = {"config": config}
        self.weight, self.seen = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)), []

    def training_step(self, batch, _):
        self.seen.append(sorted(batch.sentences.tolist()))
        return (self.weight * batch.sentences.sum()).sum() * len(self.seen[-1])

    def validation_step(self, batch, _):
        self.log("valid", 1.0, batch_size=1)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["nmt"] = self.record

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Data(pytorch_lightning.LightningDataModule):
    def loader(self, size: int, *, shuffle: bool) -> BatchLoader:
        plan = BatchPlan(unit="sentences", size=size)
        return BatchLoader(Sides(text(0), text(1)), plan, seed=1, shuffle=shuffle, source_end=True)

    def train_dataloader(self):
        return self.loader(SIZE, shuffle=True)

    def val_dataloader(self):
        return self.loader(SENTENCES, shuffle=False)


class Kill(pytorch_lightning.Callback):
    def __init__(self, before: int):
        self.before = before

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.fit_loop.epoch_loop.total_batch_idx >= self.before:
            raise KilledError


class Stop(pytorch_lightning.Callback):
    """Stop early, as a time limit or a score does."""

    def __init__(self, after: int):
        self.after = after

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if len(module.seen) == self.after:
            trainer.should_stop = True


def trained(
    folder: Path,
    settings: dict,
    *,
    resume: bool = False,
    killed_before: int | None = None,
    stopped_after: int | None = None,
    further: list[pytorch_lightning.Callback] | None = None,
    last: dict | None = None,
) -> Watched:
    module = Watched({key: str(value) for key, value in settings.items()} | {"stopped_after": stopped_after})
    callbacks = [LastCheckpoint(dirpath=str(folder), **(last or {})), LastValidation()]
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=str(folder),
        callbacks=[
            *callbacks,
            *([] if killed_before is None else [Kill(killed_before)]),
            *([] if stopped_after is None else [Stop(stopped_after)]),
            *(further or []),
        ],
        plugins=[AtomicCheckpointIO()],
        **settings,
    )
    fit = {"ckpt_path": str(folder / "last.ckpt") if resume else None, "weights_only": True}
    if killed_before is None:
        trainer.fit(module, Data(), **fit)
    else:
        with pytest.raises(KilledError):
            trainer.fit(module, Data(), **fit)
    return module


def assert_ended_alike(one: Watched, other: Watched) -> None:
    assert one.weight.item() == other.weight.item()
    logged, other_logged = (module.trainer.fit_loop.epoch_loop._batches_that_stepped for module in (one, other))
    assert logged == other_logged


FEW = {"limit_train_batches": 3}
OFTEN, SELDOM = {"val_check_interval": 4}, {"check_val_every_n_epoch": 2}
STEPS = {"max_steps": 1000}  # a bound that is never reached


@pytest.mark.parametrize(
    ("settings", "before", "limits"),
    [
        ({}, {"max_epochs": 1}, {"max_epochs": 3}),
        (FEW, {"max_epochs": 1}, {"max_epochs": 3}),
        ({"overfit_batches": 2}, {"max_epochs": 1}, {"max_epochs": 3}),
        (OFTEN, {"max_epochs": 1}, {"max_epochs": 3}),
        (SELDOM, {"max_epochs": 1}, {"max_epochs": 3}),
        (STEPS, {"max_epochs": 1}, {"max_epochs": 3}),
        (OFTEN | STEPS, {"max_epochs": 1}, {"max_epochs": 3}),
        (SELDOM | STEPS, {"max_epochs": 1}, {"max_epochs": 3}),
        (SELDOM, {"max_epochs": 9, "max_steps": 10}, {"max_epochs": 9, "max_steps": 27}),
        (SELDOM, {"max_epochs": 9, "max_steps": 5}, {"max_epochs": 9, "max_steps": 27}),
        (SELDOM, {"max_epochs": 9, "max_steps": 25}, {"max_epochs": 9, "max_steps": 35}),
        ({"limit_val_batches": 0}, {"max_epochs": 9, "max_steps": 14}, {"max_epochs": 9, "max_steps": 27}),
        ({}, {"max_epochs": 9, "max_steps": 14}, {"max_epochs": 9, "max_steps": 27}),
        (SELDOM, {"max_epochs": 9, "max_steps": 10}, {"max_epochs": 9, "max_steps": 10}),
    ],
    ids=str,
)
def test_an_ended_run_that_is_trained_for_longer_is_as_one_training(tmp_path, settings, before, limits):
    uninterrupted = trained(tmp_path / "uninterrupted", settings | limits)
    first = trained(tmp_path / "ended", settings | before)
    second = trained(tmp_path / "ended", settings | limits, resume=True)
    assert first.seen + second.seen == uninterrupted.seen
    assert_ended_alike(second, uninterrupted)


@pytest.mark.parametrize(
    ("last", "steps"),
    [
        ({}, [10]),
        ({"every_steps": 4}, [4, 8, 10]),
        ({"every_minutes": 1e-9}, list(range(1, 11))),
        ({"every_minutes": 60.0}, [10]),
    ],
    ids=str,
)
def test_checkpoints_are_saved_at_the_chosen_intervals(tmp_path, last, steps, monkeypatch):
    saved = []
    monkeypatch.setattr(
        LastCheckpoint, "_save", lambda self, trainer: (saved.append(trainer.global_step), SAVE(self, trainer))
    )
    trained(tmp_path, {"max_epochs": 1}, last=last)
    assert saved == steps


@pytest.mark.parametrize(
    ("settings", "killed_before"),
    [
        (OFTEN, 15),
        (FEW, 4),
        (FEW | {"val_check_interval": 2}, 5),
        (STEPS | SELDOM, 25),
        ({"val_check_interval": timedelta(seconds=0.005)}, 25),
        ({"accumulate_grad_batches": 2, "val_check_interval": 3}, 3),
        ({"accumulate_grad_batches": 2, "val_check_interval": 3}, 5),
        ({"accumulate_grad_batches": 3, "val_check_interval": 5}, 17),
        ({"accumulate_grad_batches": 4, "val_check_interval": 0.5}, 6),
    ],
    ids=str,
)
def test_a_killed_run_resumes_from_its_last_checkpoint(tmp_path, settings, killed_before):
    settings = {"max_epochs": 3} | settings
    uninterrupted = trained(tmp_path / "uninterrupted", settings)
    trained(tmp_path / "killed", settings, killed_before=killed_before)
    saved = (tmp_path / "killed" / "last.ckpt").is_file()
    has_stepped = settings.get("accumulate_grad_batches", 1) == 1 or killed_before in (5, 17)
    assert saved == has_stepped
    rest = trained(tmp_path / "killed", settings, resume=saved)
    assert not saved or len(rest.seen) < len(uninterrupted.seen)
    assert rest.seen == uninterrupted.seen[len(uninterrupted.seen) - len(rest.seen) :]
    assert_ended_alike(rest, uninterrupted)


@pytest.mark.parametrize(
    "settings",
    [{}, SELDOM, OFTEN, STEPS, {"accumulate_grad_batches": 2}, {"accumulate_grad_batches": 3, "val_check_interval": 5}],
    ids=str,
)
@pytest.mark.parametrize("after", [5, 9, 10, 14])
def test_a_run_that_stopped_early_resumes_from_there(tmp_path, settings, after):
    settings = {"max_epochs": 3} | settings
    uninterrupted = trained(tmp_path / "uninterrupted", settings)
    first = trained(tmp_path / "stopped", settings, stopped_after=after)
    assert after <= len(first.seen) < after + 3
    second = trained(tmp_path / "stopped", settings, resume=True)
    assert first.seen + second.seen == uninterrupted.seen
    assert_ended_alike(second, uninterrupted)


@pytest.mark.parametrize("settings", [{}, SELDOM, OFTEN, {"accumulate_grad_batches": 2}], ids=str)
@pytest.mark.parametrize("after", [5, 10])
def test_a_run_that_stopped_early_trains_no_more(tmp_path, settings, after):
    settings = {"max_epochs": 3} | settings
    first = trained(tmp_path, settings, stopped_after=after)
    second = trained(tmp_path, settings, stopped_after=after, resume=True)
    assert first.seen
    assert not second.seen
    assert second.weight.item() == first.weight.item()


class Signal(pytorch_lightning.Callback):
    """Send a signal in the validation that ends training, or after the first step."""

    def __init__(self, number=signal.SIGTERM):
        self.number = number

    def on_validation_batch_end(self, trainer, *_, **__):
        if self.number == signal.SIGTERM and trainer.global_step == STOP:
            os.kill(os.getpid(), self.number)

    def on_train_batch_start(self, trainer, *_, **__):
        if self.number != signal.SIGTERM and trainer.global_step == 1:
            os.kill(os.getpid(), self.number)


STOP = 5


def test_a_signal_in_the_final_validation_is_obeyed_after_saving(tmp_path):
    settings = {"max_epochs": 3}
    with pytest.raises(SIGTERMException):
        trained(tmp_path, settings, stopped_after=STOP, further=[Signal()])
    rest = trained(tmp_path, settings, stopped_after=STOP, resume=True)
    assert (len(rest.seen), rest.trainer.global_step) == (0, STOP)


@pytest.mark.parametrize("path", ["", "refusing"])
def test_a_failed_requeue_does_not_fail_the_run(tmp_path, monkeypatch, caplog, path):
    program = tmp_path / "refusing" / "scontrol"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", str(tmp_path / path))
    with pytest.raises(SIGTERMException):
        trained(tmp_path, {"max_epochs": 3}, further=[Signal(signal.SIGUSR1)])
    assert "the job was not requeued" in caplog.text
    rest = trained(tmp_path, {"max_epochs": 1}, resume=True)
    assert len(rest.seen) == SENTENCES // SIZE - 2


def test_a_second_warning_does_not_end_scontrol(tmp_path, monkeypatch, caplog):
    (tmp_path / "scontrol").write_text("#!/bin/sh\nkill -USR1 $$\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", str(tmp_path))
    requeue()
    assert caplog.messages == []


def test_signal_handlers_are_restored_after_training(tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    trained(tmp_path, {"max_epochs": 1})
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize(
    ("limits", "epochs"),
    [
        ({"max_epochs": 0}, 0),
        ({"max_epochs": 1, "max_steps": 3}, 0),
        ({"max_epochs": 2, "max_steps": 14}, 1),
        ({"max_epochs": 2, "max_steps": 20}, 2),
        ({"max_epochs": 2} | FEW, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("settings", [{}, {"limit_val_batches": 0}], ids=str)
def test_only_complete_epochs_count(tmp_path, settings, limits, epochs):
    assert trained(tmp_path, settings | limits).trainer.current_epoch == epochs


@pytest.mark.parametrize(("every", "steps"), [(3, [2, 3, 5]), (2, [1, 2, 3, 4, 5])])
def test_nothing_is_saved_among_accumulated_batches(tmp_path, every, steps, monkeypatch):
    saved = []

    def save(self, trainer):
        saved.append(trainer.global_step)
        SAVE(self, trainer)

    monkeypatch.setattr(LastCheckpoint, "_save", save)
    trained(tmp_path, {"max_epochs": 1, "accumulate_grad_batches": 2, "val_check_interval": every})
    assert saved == steps
