"""summary.json of a run, which says how the run ended however it ends."""

import logging
import os
import re
import secrets
import shlex
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.config.explain import explain_with_log
from nmt.config.overrides import quote_value
from nmt.runs.folder import CANDIDATES, SUMMARY, has_checkpoint, read_summary
from nmt.runs.job import IS_JOB
from nmt.runs.resume import EarlierTraining
from nmt.runs.training_folder import keep_composition
from nmt.system.files import write_json, write_text
from nmt.system.signals import END_SIGNALS, raise_on_signals
from nmt.system.slurm import TIME_WARNING, job_number, requeue, warning_signals
from nmt.training.lightning_module import TrainingModule

log = logging.getLogger(__name__)

SWEEP_AGAIN = "the same -m command once the other jobs have ended (it skips completed ones)"


class RunSummary(Callback):
    """The entries of summary.json, and the loggers to close at the end.

    Until the run has started, the folder keeps the summary of the run before. The first batch starts it at the latest,
    because everything that can be refused is refused before that.
    """

    def __init__(self, folder: Path, entries: dict[str, Any]):
        self.folder, self.entries = folder, entries
        self.loggers: list[Logger] = []
        self.started = self.trained = False  # trained: the first batch has begun

    def start(self) -> None:
        """Write the file from now on, and keep the settings of a new run."""
        self.started = True
        self.write()
        if not has_checkpoint(self.folder):
            keep_composition(self.folder)

    def update(self, **entries: Any) -> None:
        """Set entries and write the file."""
        self.entries |= entries
        self.write()

    @rank_zero_only
    def write(self) -> None:
        """Write the file, if the run has started."""
        if self.started:
            write_json(self.folder / SUMMARY, self.entries)

    def on_train_batch_start(self, trainer: Trainer, pl_module: TrainingModule, *_: Any) -> None:
        """Start, and store the vocabularies, once. The limits allow `planned_steps`; training may end before."""
        if self.trained:
            return
        self.trained = True
        if not self.started:
            self.start()
        self.update(planned_steps=trainer.estimated_stepping_batches)
        if trainer.is_global_zero:
            keep_composition(self.folder)  # only now, because a refused command must not replace settings of a run
            for side, text in pl_module.record["vocabularies"].items():
                write_text(self.folder / f"{side}.tokenizer.json", text)
            if pl_module.candidates is not None:
                pl_module.candidates.save(self.folder / CANDIDATES)


@contextmanager
def keep_summary(folder: Path, earlier: EarlierTraining, sweep: Path | None = None) -> Iterator[RunSummary]:
    """Yield the summary of a run; at the end, write how it ended and close its loggers.

    Signals that come while data are prepared or a test set is scored end the run too; training handles its own.
    `sweep` is the folder of the sweep, if one of Hydra's other launchers started the run.
    """
    clock = time.perf_counter()
    entries = {"status": "running", "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "id": secrets.token_hex(6)}
    entries |= dict(earlier.summary)
    if job := job_number():
        entries["slurm_job"] = job
    if earlier.other_settings_from:
        entries["went_on_with"] = earlier.other_settings_from
    summary, exit_status = RunSummary(folder, entries), None
    if not earlier.starts_again and read_summary(folder).get("status") != "completed":
        summary.start()
    try:
        with raise_on_signals(SIGTERMException, *END_SIGNALS, *warning_signals()):
            yield summary
        entries["status"] = "completed"
    except BaseException as error:
        exit_status = _exit_status(error)
        entries["status"] = "interrupted" if exit_status else "failed"
        stop = f"stopped by {signal.Signals(exit_status - 128).name}" if exit_status else ""
        entries["error"] = stop or explain_with_log(error, folder / "train.log")
        entries["traceback"] = traceback.format_exc()
        log.debug("the traceback", exc_info=True)
        if exit_status:
            raise SystemExit(exit_status) from error
        raise
    finally:
        entries["wall_seconds"] = round(earlier.seconds + time.perf_counter() - clock, 1)
        _finish(summary, earlier, sweep, requeues=exit_status == 128 + TIME_WARNING)


def _finish(summary: RunSummary, earlier: EarlierTraining, sweep: Path | None, *, requeues: bool) -> None:
    """Write the summary, close the loggers, requeue the job, and log how to resume."""
    status, folder, unwritten = summary.entries["status"], summary.folder, None
    try:
        summary.write()
    except OSError as error:  # a full disk must not hide the run's own error
        log.error("%s: cannot be written (%s)", error.filename, error.strerror)
        unwritten = error if status == "completed" else None
    _close(summary.loggers, exit_code=0 if status == "completed" else 1)
    if unwritten:  # or the command would end as if its results were stored
        raise unwritten
    if requeues and rank_zero_only.rank == 0 and IS_JOB not in os.environ:  # what started a job requeues it
        requeue()
    if summary.started:
        place = f": {folder}" if status == "completed" or has_checkpoint(folder) else ""
        log.info("%s after %.0f s%s", status, summary.entries["wall_seconds"], place)
    if status == "interrupted" and IS_JOB not in os.environ:
        resume = " resume=auto" if earlier.starts_again else ""  # because resume=false would start again once more
        command, key, place = "the same command", "hydra.run.dir", folder
        if sweep:  # because the user typed the sweep's command, not the job's
            command, key, place = SWEEP_AGAIN, "hydra.sweep.dir", sweep
        value = place if re.fullmatch(r"[-\w./:]+", str(place)) else quote_value(place)
        log.info("to resume: %s, with %s%s", command, shlex.quote(f"{key}={value}"), resume)


def _exit_status(error: BaseException | None) -> int | None:
    """Return 128 + the signal that stopped a run; Lightning turns Ctrl-C and SIGTERM into other exits."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return 128 + signal.SIGINT
        if isinstance(error, SIGTERMException):
            return 128 + (error.args[0] if error.args else signal.SIGTERM)
        error = error.__context__
    return None


def _close(loggers: list[Logger], exit_code: int) -> None:
    """End the runs of W&B, because an open one would swallow the next job's."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            try:
                logger.experiment.finish(exit_code=exit_code)
            except TimeoutError:
                command = f"wandb sync --include-online {logger.save_dir}/wandb/run-*"
                log.warning("W&B: the upload took too long. Fix: `%s` sends the rest", command)
