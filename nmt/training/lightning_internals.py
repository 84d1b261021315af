"""The private parts of Lightning that training depends on, each behind a name that says what it does.

`tests/training/test_lightning_internals.py` checks each against the installed version.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from pytorch_lightning import Trainer
from pytorch_lightning.loggers import WandbLogger

from nmt.errors import UserError


def validates_after_this_batch(trainer: Trainer) -> bool:
    """Return whether a validation follows the current batch of training."""
    loop = trainer.fit_loop
    return loop.epoch_loop._should_check_val_fx(loop._data_fetcher)


def accumulates_gradients(trainer: Trainer) -> bool:
    """Return whether the current step waits for gradients of further batches; no checkpoint holds these."""
    return trainer.fit_loop.epoch_loop._should_accumulate()


def stops_early(trainer: Trainer) -> bool:
    """Return whether training ends now, by a score or by a limit of time or steps."""
    return trainer.should_stop and trainer.fit_loop._can_stop_early


def logs_this_batch(trainer: Trainer) -> bool:
    """Return whether metrics of the current batch are logged."""
    return trainer._logger_connector.should_update_logs


def logged_step(trainer: Trainer) -> int:
    """Return the step at which Lightning logs the metrics of the current batch, and of a validation after it."""
    return trainer.fit_loop.epoch_loop._batches_that_stepped


def validates_by_the_clock(trainer: Trainer) -> bool:
    """Return whether trainer.val_check_interval is a time."""
    return trainer._val_check_time_interval is not None


def is_within_validation(trainer: Trainer) -> bool:
    """Return whether a batch of a validation is in progress."""
    counts = trainer.fit_loop.epoch_loop.val_loop.batch_progress.current
    return trainer.validating and counts.ready > counts.completed


def count_epoch_as_unfinished(trainer: Trainer) -> None:
    """Take back the epoch that Lightning counted as complete when training stopped within it."""
    for counts in (trainer.fit_loop.epoch_progress.total, trainer.fit_loop.epoch_progress.current):
        counts.processed, counts.completed = counts.processed - 1, counts.completed - 1


def epoch_is_finished(checkpoint: dict[str, Any]) -> bool:
    """Return whether a checkpoint was saved between two epochs."""
    return len(set(checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"].values())) == 1


def logged_steps(checkpoint: dict[str, Any]) -> int:
    """Return the last step that the loggers of a checkpoint's run have seen."""
    return checkpoint["loops"]["fit_loop"]["epoch_loop.state_dict"]["_batches_that_stepped"]


def repeat_validation_on_resume(checkpoint: dict[str, Any]) -> None:
    """Mark the validation as begun but not done, so that a resumed run validates before its next batch."""
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.val_loop.batch_progress"]
    for counts in (progress["total"], progress["current"]):
        counts |= {"ready": 1, "started": 1, "processed": 0, "completed": 0}


def move_checkpoint_paths(checkpoint: dict[str, Any], folder: Path, folders: Mapping[str, str]) -> None:
    """Point the states of ModelCheckpoint to where checkpoints are now, or a moved run would forget its best one.

    Args:
        checkpoint: The loaded checkpoint.
        folder: Where it lies.
        folders: Where each ModelCheckpoint writes, by its state_key, if it is the same run.

    Raises:
        UserError: a state names a file outside its folder, which ModelCheckpoint would delete after a better score.
    """

    def move(path: str) -> str:
        place = os.path.relpath(path, before)
        if place.split(os.sep)[0] == os.pardir:
            raise UserError(
                f"the checkpoint to resume from names {path}, outside its folder {before}, which training could delete."
                " Fix: init_from=CHECKPOINT starts from its weights alone"
            )
        return str(target / place)

    for callback, state in checkpoint["callbacks"].items():
        target = Path(folders.get(callback, folder))
        if before := state.get("dirpath"):
            state |= {key: move(path) for key, path in state.items() if key.endswith("path") and path}
            state["best_k_models"] = {move(path): score for path, score in state["best_k_models"].items()}


def stop_watching_ranks() -> None:
    """Let the first rank end in its own time; Lightning kills it within 5 s after another ended with an error."""
    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            thread._child_processes = []  # with none to watch, the thread ends


def silence_anonymous(logger: WandbLogger) -> None:
    """Drop the argument `anonymous`, because Lightning passes it always and W&B warns that it has no effect."""
    logger._wandb_init.pop("anonymous", None)


def log_offline(logger: WandbLogger) -> None:
    """Let a logger whose run could not be opened open it offline."""
    logger._wandb_init["mode"] = "offline"
