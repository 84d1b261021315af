"""Save last.ckpt, from which a run resumes.

A run on one CPU process resumes bit for bit wherever `LastCheckpoint` saved: after a validation, in the middle of an
epoch, and in a validation, which is then repeated.
"""

import time
from pathlib import Path
from typing import Any

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint

from nmt.config.diff import find_changes
from nmt.runs.folder import LAST
from nmt.training import lightning_internals as lightning
from nmt.training.csv_logger import CsvLogger
from nmt.training.lightning_module import TrainingModule
from nmt.training.signal_requests import Request, SignalRequests


class LastCheckpoint(Checkpoint):
    """Save last.ckpt after each validation, every few steps and minutes, at the end, and on signals.

    Ctrl-C, SIGTERM or a lost terminal end the run after the current batch. SIGUSR1 saves, and requeues a SLURM job.
    A second Ctrl-C ends the run at once.
    """

    def __init__(self, *, dirpath: str, every_steps: int | None = None, every_minutes: float | None = None):
        self.path = Path(dirpath) / LAST
        self.every_steps, self.every_minutes = every_steps, every_minutes
        self.requests = SignalRequests()
        self.started = self.saved = time.monotonic()
        self.saved_for = Request.NOTHING  # obeyed before the next batch, when this one is logged
        self.seconds_before = 0.0  # of training in earlier processes
        self.metrics_before: dict[str, float] = {}
        self.postponed = False  # True while the checkpoint of a validation waits for the end of the next step
        self.stops_with_step = False
        self.stopped_within_epoch = False
        self.had_stopped_early = False  # in the process that saved the checkpoint
        self.step_limit: int | None = None  # trainer.max_steps, while it is hidden from Lightning

    def on_train_start(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Apply what was kept from Lightning while it restored its state, and listen to signals."""
        self.started = self.saved = time.monotonic()
        self.saved_step = trainer.global_step
        if self.step_limit is not None:
            trainer.fit_loop.epoch_loop.max_steps = self.step_limit
        trainer.should_stop = self.stops_with_step = self.had_stopped_early
        self.requests.listen()

    def on_train_batch_start(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Obey the request that was saved for, because only now the batch before is logged completely."""
        self.requests.obey(self.saved_for, trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Save where it is due or requested; not before a validation, which Lightning would take for done."""
        self._stop_with_step(trainer)
        waits = lightning.accumulates_gradients(trainer) or lightning.validates_after_this_batch(trainer)
        if waits or trainer.is_last_batch:
            return
        count = len(self.requests.pending)
        default = Request.SAVE if self._is_due(trainer) else Request.NOTHING
        request = self.requests.highest(count, pl_module.device, default)
        logs_now = trainer.log_every_n_steps > 1 and lightning.logs_this_batch(trainer)
        if request and not (request == Request.SAVE and logs_now):  # or its rows would come after the checkpoint
            self._save(trainer)
            self.saved_for = request
            del self.requests.pending[:count]

    def on_validation_start(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Take the batches of an interrupted validation off the loop's total."""
        trainer.fit_loop.epoch_loop.val_loop.batch_progress.total.reset_on_restart()

    def on_validation_batch_end(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Save on request and stop; a resumed run repeats the validation. Not where training ends anyway."""
        if not trainer.validating or lightning.stops_early(trainer) or lightning.accumulates_gradients(trainer):
            return
        count = len(self.requests.pending)
        if request := self.requests.highest(count, pl_module.device):
            self._save(trainer)
            del self.requests.pending[:count]
            self.requests.obey(request, trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Save, unless a later moment is the right one."""
        if trainer.validating:
            self._stop_with_step(trainer)
            self.postponed = lightning.accumulates_gradients(trainer) or lightning.validates_by_the_clock(trainer)
            if not (self.postponed or _is_final_validation(trainer)):
                self._save(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Note whether training stops within the epoch."""
        self.stopped_within_epoch = not trainer.is_last_batch

    def on_train_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Save what came after the last validation."""
        if self.stopped_within_epoch:
            lightning.count_epoch_as_unfinished(trainer)
        if trainer.global_step > self.saved_step:
            self._save(trainer)
        count = len(self.requests.pending)
        self.requests.obey(self.requests.highest(count, pl_module.device, self.saved_for), trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: TrainingModule, checkpoint: dict[str, Any]) -> None:
        """Add the time, the metrics and the counts of rows that a resumed run restores."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        seconds = self.seconds_before + time.monotonic() - self.started
        checkpoint["progress"] = {"seconds": seconds, "metrics": self.metrics_before | metrics}
        checkpoint["ended"] = lightning.stops_early(trainer)
        for logger in (one for one in trainer.loggers if isinstance(one, CsvLogger)):
            checkpoint |= logger.count(lightning.logged_steps(checkpoint))
        if lightning.is_within_validation(trainer):
            lightning.repeat_validation_on_resume(checkpoint)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: TrainingModule, checkpoint: dict[str, Any]) -> None:
        """Restore this state; in the run's own folder also its time, its best checkpoint and its metrics.csv."""
        progress = checkpoint["progress"]
        self.metrics_before = progress["metrics"]
        if lightning.epoch_is_finished(checkpoint):  # or Lightning, counting steps, would take the epoch for begun
            self.step_limit, trainer.fit_loop.epoch_loop.max_steps = trainer.max_steps, -1
        for callback in trainer.early_stopping_callbacks:  # or Lightning would restore the former patience
            checkpoint["callbacks"].get(callback.state_key, {})["patience"] = callback.patience
        folder = Path(trainer.ckpt_path).resolve().parent  # Lightning resolves links too
        is_own = folder == self.path.resolve().parent
        writers = [one for one in trainer.checkpoint_callbacks if isinstance(one, ModelCheckpoint)]
        folders = {one.state_key: one.dirpath for one in writers} if is_own else {}
        lightning.move_checkpoint_paths(checkpoint, folder, folders)
        if is_own:
            self.seconds_before = progress["seconds"]
            same_limits = not find_changes(checkpoint["nmt"]["config"], pl_module.record["config"])
            self.had_stopped_early = checkpoint.get("ended", False) and same_limits
            step, rows = lightning.logged_steps(checkpoint), checkpoint.get("rows", 0)  # no rows without metrics.csv
            for logger in (one for one in trainer.loggers if isinstance(one, CsvLogger)):
                logger.keep_until(step, validations=checkpoint.get("validations"), count=rows)

    def _is_due(self, trainer: Trainer) -> bool:
        """Return whether a checkpoint was postponed, or is due by the steps or the clock of the first rank."""
        minutes = (time.monotonic() - self.saved) / 60
        by_time = self.every_minutes is not None and minutes >= self.every_minutes
        by_steps = self.every_steps is not None and trainer.global_step - self.saved_step >= self.every_steps
        return self.postponed or (trainer.is_global_zero and (by_time or by_steps))

    def _stop_with_step(self, trainer: Trainer) -> None:
        """Delay a stop among accumulated batches to the end of their step."""
        self.stops_with_step = self.stops_with_step or trainer.should_stop
        trainer.should_stop = self.stops_with_step and not lightning.accumulates_gradients(trainer)

    def _save(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self.saved, self.saved_step, self.postponed = time.monotonic(), trainer.global_step, False


def _is_final_validation(trainer: Trainer) -> bool:
    """Return whether Lightning validates only because training stops: the checkpoint at the end is the right one."""
    if not trainer.should_stop:
        return False
    trainer.should_stop = False
    is_scheduled = lightning.validates_after_this_batch(trainer)
    trainer.should_stop = True
    return not is_scheduled
