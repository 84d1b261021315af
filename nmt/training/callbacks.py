"""Callbacks that watch a training: speed, gradients, progress, and pruning of hopeless runs."""

import logging
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.runs.folder import METRICS, read_metrics, read_sweep_jobs
from nmt.system.locks import HeldLock
from nmt.training.lightning_internals import logs_this_batch
from nmt.training.lightning_module import TrainingModule

log = logging.getLogger(__name__)


def is_logged(trainer: Trainer) -> bool:
    """Return whether values of the current batch are kept; to hand them to Lightning takes a millisecond."""
    return logs_this_batch(trainer) or trainer.is_last_batch


class Throughput(Callback):
    """Log target words per second over all ranks, without the time of validations."""

    words, seconds = 0, 0.0
    resumed: float | None = None  # when the last batch ended; None after a validation

    def on_train_batch_start(self, trainer: Trainer, pl_module: TrainingModule, batch: Batch, batch_idx: int) -> None:
        """Restart the clock at the start of an epoch and after a validation."""
        if batch_idx == 0 or self.resumed is None:
            self.resumed = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainingModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Count the batch and log the rate."""
        now = time.perf_counter()
        self.words += batch.global_words
        self.seconds += now - self.resumed
        self.resumed = now
        if is_logged(trainer):
            rate = self.words / self.seconds
            pl_module.log("train/tokens_per_second", rate, rank_zero_only=True, batch_size=1)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Stop the clock, because plots and checkpoints are made after this."""
        self.resumed = None


class LockGuard(Callback):
    """End training when the lock of the run's folder is lost, before two runs mix their files."""

    def __init__(self, lock: HeldLock | None):
        self.lock = lock  # None on ranks other than the first

    def on_validation_start(self, *_: Any) -> None:
        """Check before each validation, and before each checkpoint is written."""
        if self.lock is not None and self.lock.is_lost():
            raise UserError(
                f"{self.lock.path}: was removed or replaced, so another process may train in this folder. "
                "Fix: give the same command again once no other process trains there"
            )

    on_save_checkpoint = on_validation_start


class LastValidation(Callback):
    """Validate at trainer.max_steps too, if it lies within an epoch, so that the last steps are not lost.

    Lightning does not validate in epochs that trainer.check_val_every_n_epoch leaves out.
    """

    def on_train_batch_end(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Stop training at the step limit; Lightning validates where it stops."""
        if 0 < trainer.max_steps <= trainer.global_step:
            trainer.should_stop = True


class MedianPruning(Callback):
    """Stop a run of a sweep whose best validation BLEU is below the median of the other runs at the same point.

    Args:
        sweep_folder: the folder of the sweep; runs of an earlier sweep in it, by sweep.json, do not count.
        warm_up: validations before any run is stopped.
        siblings: other runs needed that have as many validations.
    """

    def __init__(self, *, sweep_folder: str, warm_up: int, siblings: int):
        self.sweep_folder, self.warm_up, self.siblings = Path(sweep_folder), warm_up, siblings
        self.scores: list[float] = []

    def on_validation_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Stop on all ranks if any is behind, because each reads the other runs' files at its own moment."""
        if trainer.sanity_checking:
            return
        self.scores.append(float(trainer.callback_metrics["valid/bleu"]))
        if trainer.strategy.reduce_boolean_decision(self._is_behind(Path(trainer.default_root_dir)), all=False):
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"scores": self.scores}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what a checkpoint stores."""
        self.scores = list(state["scores"])

    def _is_behind(self, folder: Path) -> bool:
        done, best = len(self.scores), max(self.scores)
        others = [scores for scores in self._scores_of_others(folder) if len(scores) >= done]
        if done <= self.warm_up or len(others) < self.siblings:
            return False
        median = statistics.median(max(scores[:done]) for scores in others)
        if best < median:
            log.info("pruned: the best of %d validations, %.4g, is below %.4g", done, best, median)
        return best < median

    def _scores_of_others(self, folder: Path) -> list[list[float]]:
        """Return the validation BLEU scores of each other run of the sweep."""
        scores, jobs = [], {(self.sweep_folder / name).resolve() for name in read_sweep_jobs(self.sweep_folder)}
        for file in self.sweep_folder.glob(f"*/{METRICS}"):
            other = file.parent.resolve()
            if other != folder.resolve() and (not jobs or other in jobs):
                with suppress(ValueError):  # a damaged file must not end this run
                    scores.append([float(row["valid/bleu"]) for row in read_metrics(file) if row.get("valid/bleu")])
        return scores


class GradientNorm(Callback):
    """Log the norm of the gradient before clipping."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Log the norm of the last step."""
        if pl_module.gradient_norm is not None and is_logged(trainer):
            pl_module.log("train/gradient_norm", pl_module.gradient_norm, rank_zero_only=True, batch_size=1)


class LearningRate(Callback):
    """Log the learning rate of a step, in the row of its loss."""

    def on_train_batch_start(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Note the rate, because a schedule may change it before the batch ends."""
        self.rate = float(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Log the rate."""
        if is_logged(trainer):
            # on the CPU, because Lightning would copy it to a GPU, and wait
            rate = torch.tensor(self.rate, dtype=torch.float64)
            pl_module.log("lr", rate, rank_zero_only=True, batch_size=1)


class Progress(Callback):
    """Log a line every 30 seconds where no terminal shows a progress bar, and a line after each validation."""

    def on_train_start(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Start the clock."""
        self.logged = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainingModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Log a line if it is time."""
        if trainer.progress_bar_callback is None and time.perf_counter() - self.logged > 30:
            self._log(trainer, f"batch {batch_idx + 1} of {trainer.num_training_batches}", ("train/loss",))

    def on_validation_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Log the scores of a validation."""
        if not trainer.sanity_checking:
            self._log(trainer, "validated", ("train/loss", "valid/loss", "valid/perplexity", "valid/bleu"))

    def _log(self, trainer: Trainer, event: str, names: tuple[str, ...]) -> None:
        self.logged = time.perf_counter()
        metrics = trainer.callback_metrics
        values = ", ".join(f"{name} {float(metrics[name]):.4g}" for name in names if name in metrics)
        if trainer.is_global_zero:
            log.info("epoch %d, step %d, %s: %s", trainer.current_epoch, trainer.global_step, event, values)
