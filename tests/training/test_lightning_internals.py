"""The private parts of Lightning do what lightning_internals says; each test names the function it checks."""

import ast
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning
import torch
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import WandbLogger

from nmt.errors import UserError
from nmt.training import lightning_internals as lightning

FUNCTIONS = [
    node.name
    for node in ast.parse(Path(lightning.__file__).read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]
BATCHES = 5


class Model(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, _):
        return (self.weight * batch).sum()

    def validation_step(self, batch, _):
        self.log("score", 1.0)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def train_dataloader(self):
        return torch.ones(BATCHES, 1)

    val_dataloader = train_dataloader


class Watch(pytorch_lightning.Callback):
    """Record what `ask` returns at the end of each training batch."""

    def __init__(self, ask):
        self.ask, self.answers = ask, []

    def on_train_batch_end(self, trainer, *_):
        self.answers.append(self.ask(trainer))


def trainer(folder, *callbacks, **settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    callbacks = [*callbacks, ModelCheckpoint(dirpath=folder, monitor="score", filename="best")]
    settings = {"max_epochs": 1, "num_sanity_val_steps": 0} | settings
    return pytorch_lightning.Trainer(default_root_dir=folder, callbacks=callbacks, **quiet, **settings)


def answers(folder, ask, **settings):
    watch = Watch(ask)
    trainer(folder, watch, **settings).fit(Model())
    return watch.answers


def test_every_function_has_a_test():
    tests = [name for name in globals() if name.startswith("test_")]
    untested = [name for name in FUNCTIONS if f"test_{name}" not in tests]
    assert not untested


def test_validates_after_this_batch(tmp_path):
    assert answers(tmp_path, lightning.validates_after_this_batch, val_check_interval=2) == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_accumulates_gradients(tmp_path):
    asked = answers(tmp_path, lightning.accumulates_gradients, accumulate_grad_batches=2)
    assert asked == [True, False, True, False, False]


def test_stops_early(tmp_path):
    def stop(trainer):
        trainer.should_stop = trainer.global_step >= 3
        return lightning.stops_early(trainer)

    assert answers(tmp_path, stop) == [False, False, True]


def test_logs_this_batch(tmp_path):
    assert answers(tmp_path, lightning.logs_this_batch, log_every_n_steps=2) == [False, True, False, True, False]


def test_logged_step(tmp_path):
    assert answers(tmp_path, lightning.logged_step, accumulate_grad_batches=2) == [0, 0, 1, 1, 2]


def test_validates_by_the_clock(tmp_path):
    assert not any(answers(tmp_path, lightning.validates_by_the_clock))
    assert all(answers(tmp_path, lightning.validates_by_the_clock, val_check_interval="00:00:01:00"))


def test_count_epoch_as_unfinished(tmp_path):
    stopped = trainer(tmp_path, max_steps=2, max_epochs=9)
    stopped.fit(Model())
    before = stopped.current_epoch
    lightning.count_epoch_as_unfinished(stopped)
    assert stopped.current_epoch == before - 1


@pytest.fixture
def checkpoint(tmp_path):
    """The checkpoint of a run of one epoch that stops early with patience 3."""
    watched = trainer(tmp_path, EarlyStopping("score", patience=3), log_every_n_steps=1)
    watched.fit(Model())
    watched.save_checkpoint(tmp_path / "last.ckpt")
    return torch.load(tmp_path / "last.ckpt", weights_only=True)


def test_epoch_is_finished(checkpoint, tmp_path):
    assert lightning.epoch_is_finished(checkpoint)
    assert not lightning.epoch_is_finished(torch.load(tmp_path / "best.ckpt", weights_only=True))


def test_logged_steps(checkpoint):
    assert lightning.logged_steps(checkpoint) == BATCHES


class SaveInValidation(pytorch_lightning.Callback):
    """Save a checkpoint within the first validation."""

    def on_validation_batch_end(self, trainer, *_):
        path = Path(trainer.default_root_dir) / "interrupted.ckpt"
        if not path.exists():
            trainer.save_checkpoint(path)

    def on_save_checkpoint(self, trainer, module, checkpoint):
        if trainer.validating:
            lightning.repeat_validation_on_resume(checkpoint)


class Events(pytorch_lightning.Callback):
    events = ""

    def on_validation_start(self, *_):
        self.events += "v"

    def on_train_batch_end(self, *_):
        self.events += "b"


class Within(pytorch_lightning.Callback):
    """Note for each hook whether a batch of a validation is in progress."""

    def __init__(self):
        self.noted = {}

    def note(self, hook, trainer):
        self.noted.setdefault(hook, []).append(lightning.is_within_validation(trainer))

    def on_train_batch_end(self, trainer, *_):
        self.note("train_batch_end", trainer)

    def on_validation_start(self, trainer, *_):
        self.note("start", trainer)

    def on_validation_batch_end(self, trainer, *_):
        self.note("batch_end", trainer)

    def on_validation_end(self, trainer, *_):
        self.note("end", trainer)


def test_is_within_validation(tmp_path):
    within = Within()
    trainer(tmp_path, within, max_epochs=2, num_sanity_val_steps=1).fit(Model())
    assert within.noted["batch_end"] == [False] + 2 * BATCHES * [True]  # the first is a sanity check
    for hook in ("train_batch_end", "start", "end"):
        assert set(within.noted[hook]) == {False}


def test_repeat_validation_on_resume(tmp_path):
    trainer(tmp_path, SaveInValidation(), val_check_interval=2).fit(Model())
    resumed = Events()
    path = tmp_path / "interrupted.ckpt"
    trainer(tmp_path, resumed, val_check_interval=2).fit(Model(), ckpt_path=path, weights_only=True)
    assert resumed.events == "vbbvb"


def test_move_checkpoint_paths(checkpoint, tmp_path):
    (state,) = (state for state in checkpoint["callbacks"].values() if "best_k_models" in state)
    assert state["best_model_path"] == f"{tmp_path}/best.ckpt"
    lightning.move_checkpoint_paths(checkpoint, Path("/moved"), {})
    assert (state["best_model_path"], state["dirpath"]) == ("/moved/best.ckpt", "/moved")
    assert list(state["best_k_models"]) == ["/moved/best.ckpt"]
    (key,) = (key for key, one in checkpoint["callbacks"].items() if one is state)
    lightning.move_checkpoint_paths(checkpoint, Path("/moved"), {key: "/of_its_own"})
    assert state["best_model_path"] == "/of_its_own/best.ckpt"


@pytest.mark.parametrize("path", ["FOLDER/../other", "/other", "FOLDERS/other", "local:///other"])
def test_a_checkpoint_cannot_have_files_outside_its_folder_deleted(checkpoint, tmp_path, path):
    (state,) = (state for state in checkpoint["callbacks"].values() if "best_k_models" in state)
    path = path.replace("FOLDER", state["dirpath"])
    state |= {"kth_best_model_path": path, "best_k_models": {path: torch.tensor(-1.0)}}
    with pytest.raises(UserError, match="outside its folder"):
        lightning.move_checkpoint_paths(checkpoint, Path("/moved"), {})


@pytest.mark.parametrize("stops", [True, False])
def test_stop_watching_ranks(stops):
    rank = subprocess.Popen(["false"])
    first = subprocess.Popen(["sleep", "60"])
    rank.wait()
    observer = _ChildProcessObserver(main_pid=first.pid, child_processes=[rank], sleep_period=0.2)
    observer.start()
    if stops:
        lightning.stop_watching_ranks()
    observer.join(timeout=10)
    first.terminate()
    assert first.wait() == -(signal.SIGTERM if stops else signal.SIGKILL)  # it ends by the signal that came first


def test_silence_anonymous(tmp_path):
    logger = WandbLogger(save_dir=tmp_path, offline=True)
    assert "anonymous" in logger._wandb_init
    lightning.silence_anonymous(logger)
    assert "anonymous" not in logger._wandb_init
    lightning.silence_anonymous(SimpleNamespace(_wandb_init={}))


def test_log_offline(tmp_path, monkeypatch):
    begun = {}
    monkeypatch.setattr("wandb.init", lambda **settings: begun.update(settings) or SimpleNamespace())
    logger = WandbLogger(save_dir=tmp_path)
    lightning.log_offline(logger)
    assert logger.experiment is not None
    assert begun["mode"] == "offline"
