"""Where a run goes on from: written whole or not at all, often enough, and when it is told to stop.

A run goes on bit for bit (CPU, one process) as if it had never stopped, wherever `Last` saved: after a validation, in
the middle of an epoch, and before a validation that was not finished, which is then done again.
"""

import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.config.diff import changed
from nmt.data.batches import Batch
from nmt.runs.folder import LAST
from nmt.system.signals import ENDING, handlers
from nmt.system.slurm import WARNING, in_slurm, requeue
from nmt.training.csv_logger import MetricsFile
from nmt.training.distributed import highest
from nmt.training.lightning_module import Training

log = logging.getLogger(__name__)


GO_ON, SAVE, REQUEUE, TERMINATE, INTERRUPT = range(5)  # what is asked for; of several ranks' wishes the highest counts


SIGNALS = (signal.SIGINT, *ENDING, WARNING, signal.SIGUSR2)  # the last is what submitit sends


VALIDATION = "epoch_loop.val_loop.batch_progress"


class Last(Checkpoint):
    """Keeps last.ckpt: after each validation, every so many steps and minutes, at the end, and when a signal asks.

    Ctrl-C, SIGTERM, a lost terminal: the batch is finished, all is saved, the run ends. SIGUSR1: all is saved; in a
    SLURM job it is put into the queue again, where the same command goes on. A second Ctrl-C ends the run at once.
    """

    def __init__(self, *, dirpath: str, every_steps: int | None = None, every_minutes: float | None = None):
        self.path = Path(dirpath) / LAST
        self.every_steps, self.every_minutes = every_steps, every_minutes
        self.wishes: list[int] = []  # signals may come at any moment, while others are answered too
        self.ending = signal.SIGTERM  # which of them ends the run
        self.granted = GO_ON
        self.seconds = 0.0  # of training before this process
        self.metrics: dict[str, float] = {}  # of a run that is gone on with, until it has its own
        self.validating = self.breaking_off = False
        self.postponed = False  # a checkpoint, from among accumulated batches to the end of their step
        self.stops = False  # when that step is made
        self.within_an_epoch = False  # training ends
        self.ended = False  # training had, early, when it was saved
        self.most_steps: int | None = None  # trainer.max_steps, while it is kept from Lightning
        self.before: dict[int, Any] = {}  # handlers of signals

    def setup(self, trainer: Trainer, module: Training, stage: str) -> None:
        """Signals go where they went before Lightning took them too, when training is over."""
        self.started = self.saved = time.monotonic()
        self.before = handlers(*SIGNALS)

    def on_train_start(self, trainer: Trainer, module: Training) -> None:
        self.step = self.saved_step = trainer.global_step
        if self.most_steps is not None:
            trainer.fit_loop.epoch_loop.max_steps, self.most_steps = self.most_steps, None
        trainer.should_stop = self.stops = self.ended
        for number in self.before:
            signal.signal(number, self._ask)

    def teardown(self, trainer: Trainer, module: Training, stage: str) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and INTERRUPT in self.wishes:
            raise KeyboardInterrupt
        log.info("%s: all is saved after this batch", signal.Signals(number).name)
        if number in ENDING:
            self.ending = number
        wishes = {signal.SIGINT: INTERRUPT} | dict.fromkeys(ENDING, TERMINATE)
        self.wishes.append(wishes.get(number, REQUEUE if self._listener() or in_slurm() else SAVE))

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        stepped, self.step = trainer.global_step > self.step, trainer.global_step
        self._stop_with_a_step(trainer)
        if not stepped or _validates_next(trainer) or trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            return
        asked = len(self.wishes)
        wish = highest(max(self.wishes[:asked], default=SAVE if self._due(trainer) else GO_ON), module.device)
        if wish and not (wish == SAVE and _logs_now(trainer)):  # what is logged of this batch comes after this
            self._save(trainer)
            self.granted = wish
            del self.wishes[:asked]

    def on_train_batch_start(self, trainer: Trainer, module: Training, batch: Batch, batch_idx: int) -> None:
        """Only now all is logged of the batch before."""
        self._obey(trainer, self.granted)

    def _due(self, trainer: Trainer) -> bool:
        """By the first rank's clock, or because of a validation."""
        minutes = (time.monotonic() - self.saved) / 60
        by_time = self.every_minutes is not None and minutes >= self.every_minutes
        by_steps = self.every_steps is not None and trainer.global_step - self.saved_step >= self.every_steps
        return self.postponed or (trainer.is_global_zero and (by_time or by_steps))

    def on_validation_start(self, trainer: Trainer, module: Training) -> None:
        self.validating = not trainer.sanity_checking
        # else one that was broken off would count for ever, and what is saved after any later one as broken off too
        trainer.fit_loop.epoch_loop.val_loop.batch_progress.total.reset_on_restart()

    def on_validation_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        asked = len(self.wishes)
        if not self.validating or _ends(trainer) or _accumulates(trainer):
            return  # what would be saved where training ends would not be gone on with
        if wish := highest(max(self.wishes[:asked], default=GO_ON), module.device):
            self.breaking_off = True
            self._save(trainer)
            self.breaking_off = False
            del self.wishes[:asked]
            self._obey(trainer, wish)

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if self.validating:
            self.validating = False
            self._stop_with_a_step(trainer)
            self.postponed = _accumulates(trainer) or trainer._val_check_time_interval is not None
            if not (self.postponed or _is_for_the_end_alone(trainer)):
                self._save(trainer)

    def _stop_with_a_step(self, trainer: Trainer) -> None:
        """Whoever ends training, by time or by scores, may do so among accumulated batches."""
        self.stops = self.stops or trainer.should_stop
        trainer.should_stop = self.stops and not _accumulates(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: Training) -> None:
        self.within_an_epoch = not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch

    def on_train_end(self, trainer: Trainer, module: Training) -> None:
        """What came after the last validation is kept too."""
        if self.within_an_epoch:  # which Lightning counts as whole
            for counts in (trainer.fit_loop.epoch_progress.total, trainer.fit_loop.epoch_progress.current):
                counts.processed, counts.completed = counts.processed - 1, counts.completed - 1
        if trainer.global_step > self.saved_step:
            self._save(trainer)
        self._obey(trainer, highest(max(self.wishes, default=GO_ON), module.device))

    def _save(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self.saved, self.saved_step, self.postponed = time.monotonic(), trainer.global_step, False

    def _obey(self, trainer: Trainer, wish: int) -> None:
        self.granted = GO_ON
        if wish == REQUEUE:
            self._requeue(trainer.is_global_zero)
            trainer.strategy.barrier()  # where one rank leaves, SLURM may end the others before they have asked
        if wish in (REQUEUE, TERMINATE):
            raise SIGTERMException(self.ending)
        if wish == INTERRUPT:
            raise KeyboardInterrupt

    def _requeue(self, is_first: bool) -> None:
        """By whoever started this process, where he listens for the signal (submitit), or by SLURM itself."""
        if listener := self._listener():
            with suppress(SystemExit):
                listener(signal.SIGUSR2, None)
        elif is_first:
            requeue()

    def _listener(self) -> Callable[[int, FrameType | None], Any] | None:
        """Who put this process into a queue, where he waits for a signal to do so again: submitit."""
        handler = self.before.get(signal.SIGUSR2)
        return handler if callable(handler) else None

    def on_save_checkpoint(self, trainer: Trainer, module: Training, checkpoint: dict[str, Any]) -> None:
        seconds = self.seconds + time.monotonic() - self.started
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        checkpoint["progress"] = {"seconds": seconds, "metrics": self.metrics | metrics}
        checkpoint["ended"] = _ends(trainer)
        checkpoint["validations"] = max((log.validations() for log in _metrics_files(trainer)), default=None)
        loops = checkpoint["loops"]["fit_loop"]
        if self.breaking_off:  # Lightning then begins this validation again, in place of the next batch
            progress = loops[VALIDATION]
            for counts in (progress["total"], progress["current"]):
                counts |= {"ready": 1, "started": 1, "processed": 0, "completed": 0}

    def on_load_checkpoint(self, trainer: Trainer, module: Training, checkpoint: dict[str, Any]) -> None:
        self.seconds, self.metrics = checkpoint["progress"]["seconds"], checkpoint["progress"]["metrics"]
        if _is_finished(checkpoint["loops"]["fit_loop"]):  # or Lightning, where it counts steps, takes it for begun
            loop = trainer.fit_loop.epoch_loop
            self.most_steps, loop.max_steps = loop.max_steps, -1
        _be_as_patient_as_told(trainer, checkpoint["callbacks"])
        if Path(trainer.ckpt_path).resolve().parent == self.path.resolve().parent:
            limits_are_as_they_were = not changed(checkpoint["nmt"]["config"], module.record["config"])
            self.ended = checkpoint.get("ended", False) and limits_are_as_they_were
            _follow(checkpoint["callbacks"], self.path.parent.resolve())  # as Lightning writes it, a link followed
            loops = checkpoint["loops"]["fit_loop"]
            logged = loops["epoch_loop.state_dict"]["_batches_that_stepped"]
            for log in _metrics_files(trainer):
                log.keep_until(logged, validations=checkpoint.get("validations"))


def _metrics_files(trainer: Trainer) -> list[MetricsFile]:
    return [logger for logger in trainer.loggers if isinstance(logger, MetricsFile)]


def _follow(states: dict[str, Any], folder: Path) -> None:
    """A run's folder may have been moved: Lightning would forget which checkpoint was the best."""
    for state in states.values():
        if before := state.get("dirpath"):
            for key, value in state.items():
                if isinstance(value, str) and value.startswith(before):
                    state[key] = str(folder) + value[len(before) :]
            best = state["best_k_models"]
            state["best_k_models"] = {str(folder) + path[len(before) :]: score for path, score in best.items()}


def _be_as_patient_as_told(trainer: Trainer, states: dict[str, Any]) -> None:
    """Lightning would keep the patience that the run began with."""
    for stopping in trainer.early_stopping_callbacks:
        if stopping.state_key in states:
            states[stopping.state_key]["patience"] = stopping.patience


def _is_finished(loops: dict[str, Any]) -> bool:
    """The epoch that was the last."""
    return len(set(loops["epoch_progress"]["current"].values())) == 1


def _validates_next(trainer: Trainer) -> bool:
    """Lightning's loop would take what is saved now for saved after the validation."""
    loop = trainer.fit_loop
    return loop.epoch_loop._should_check_val_fx(loop._data_fetcher)


def _is_for_the_end_alone(trainer: Trainer) -> bool:
    """A validation that is made because training stops: what is saved in it would be gone on with as if it came again,
    so that all is saved when training is over."""
    if not trainer.should_stop:
        return False
    trainer.should_stop = False
    planned = _validates_next(trainer)
    trainer.should_stop = True
    return not planned


def _ends(trainer: Trainer) -> bool:
    """Early: by scores, or by a limit of time or steps."""
    return trainer.should_stop and trainer.fit_loop._can_stop_early


def _accumulates(trainer: Trainer) -> bool:
    """Between batches whose gradients make one step: no checkpoint has these."""
    return trainer.fit_loop.epoch_loop._should_accumulate()


def _logs_now(trainer: Trainer) -> bool:
    return trainer.log_every_n_steps > 1 and trainer._logger_connector.should_update_logs
