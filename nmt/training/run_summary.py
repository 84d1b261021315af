"""What is said of a run, however it ends: summary.json, its loggers, the exit status."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.config.explain import explain
from nmt.config.overrides import quoted
from nmt.data.batches import Batch
from nmt.runs.folder import CANDIDATES, SUMMARY, read_summary
from nmt.runs.job import IS_JOB
from nmt.system.files import write_json, write_text
from nmt.system.signals import ENDING, raising
from nmt.system.slurm import WARNING, ending_signals, requeue
from nmt.training.lightning_module import Training
from nmt.training.resume import Before, keep_composition

log = logging.getLogger(__name__)


@dataclass
class Record:
    """What is to be said of a run, and who is to be told how it ended."""

    folder: Path
    summary: dict[str, Any]
    loggers: list[Logger] = field(default_factory=list)
    begun: bool = False  # until then the folder says what it said before

    def begin(self) -> None:
        self.begun = True
        self.write()
        keep_composition(self.folder)

    @rank_zero_only
    def write(self) -> None:
        if self.begun:
            write_json(self.folder / SUMMARY, self.summary)


class Beginning(Callback):
    """What was completed stays as it is until it is trained further: all that can be refused is refused before."""

    def __init__(self, record: Record):
        self.record = record
        self.trained = False

    def on_train_batch_start(self, trainer: Trainer, module: Training, batch: Batch, batch_idx: int) -> None:
        if self.trained:
            return
        self.trained = True
        if not self.record.begun:
            self.record.begin()
        if trainer.is_global_zero:
            self._put_words(module)

    def _put_words(self, module: Training) -> None:
        folder = self.record.folder
        for side, text in module.record["vocabularies"].items():
            write_text(folder / f"{side}.tokenizer.json", text)
        if module.candidates is not None:
            module.candidates.save(folder / CANDIDATES)


@contextmanager
def recorded(folder: Path, before: Before) -> Iterator[Record]:
    """Keeps `summary.json`: whatever happens, it says how the run ended; loggers are closed accordingly. What a run
    that is completed, or to be put aside, says of itself is left until this one begins."""
    begun = time.perf_counter()
    begun_now = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "id": secrets.token_hex(6)}
    summary = {"status": "running"} | begun_now | dict(before.told)
    if before.of_another:
        summary["went_on_with"] = before.of_another
    record, stopped = Record(folder, summary), None
    if not before.anew and read_summary(folder).get("status") != "completed":
        record.begin()
    try:
        # As data are prepared, an earlier stage is trained, or the run is scored; its training has its own way
        with raising(SIGTERMException, *ENDING, *ending_signals()):
            yield record
        summary["status"] = "completed"
    except BaseException as error:
        stopped = _status_of_signal(error)
        summary["status"] = "interrupted" if stopped else "failed"
        told = f"stopped by {signal.Signals(stopped - 128).name}" if stopped else explain(error)
        summary["error"] = told
        summary["traceback"] = traceback.format_exc()
        log.debug("the traceback", exc_info=True)
        if stopped:
            raise SystemExit(stopped) from error
        raise
    finally:
        summary["wall_seconds"] = round(before.seconds + time.perf_counter() - begun, 1)
        with _told_of_a_full_disk():
            record.write()
        _close(record.loggers, exit_code=0 if summary["status"] == "completed" else 1)
        if stopped == 128 + WARNING and rank_zero_only.rank == 0:
            requeue()
        if record.begun:
            log.info("%s after %.0f s: %s", summary["status"], summary["wall_seconds"], folder)
        if summary["status"] == "interrupted" and IS_JOB not in os.environ:
            again = " resume=auto" if before.anew else ""  # or the same command would begin anew once more
            log.info("to go on: the same command, with %s%s", _as_argument(folder), again)


def _as_argument(folder: Path) -> str:
    """Quoted, for Hydra and for the shell, where it has to be."""
    place = str(folder)
    is_plain = re.fullmatch(r"[-\w./:]+", place)
    return shlex.quote(f"hydra.run.dir={place if is_plain else quoted(place)}")


@contextmanager
def _told_of_a_full_disk() -> Iterator[None]:
    """What comes here is the end of a run, whose own error must not be lost."""
    try:
        yield
    except OSError as error:
        log.error("%s: cannot be written (%s)", error.filename, error.strerror)


def _status_of_signal(error: BaseException | None) -> int | None:
    """The exit status of a run told to stop; Lightning makes Ctrl-C an exit of its own, and SIGTERM one of status 0."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return 128 + signal.SIGINT
        if isinstance(error, SIGTERMException):
            return 128 + (error.args[0] if error.args else signal.SIGTERM)
        error = error.__context__
    return None


def _close(loggers: list[Logger], exit_code: int) -> None:
    """A W&B run left open would swallow the next job's."""
    for logger in loggers:
        logger.finalize("success" if exit_code == 0 else "failed")
        if isinstance(logger, WandbLogger) and rank_zero_only.rank == 0:
            logger.experiment.finish(exit_code=exit_code)
