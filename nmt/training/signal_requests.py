"""Signals to a training run, kept until a checkpoint can be saved."""

import logging
import os
import signal
from contextlib import suppress
from enum import IntEnum
from types import FrameType
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.runs.job import IS_JOB
from nmt.system.signals import END_SIGNALS, current_handlers
from nmt.system.slurm import TIME_WARNING, in_slurm, requeue
from nmt.training.distributed import highest

log = logging.getLogger(__name__)

SUBMITIT = signal.SIGUSR2  # the signal with which submitit announces the end of a job's time
SIGNALS = (signal.SIGINT, *END_SIGNALS, TIME_WARNING, SUBMITIT)


class Request(IntEnum):
    """Requests that signals make; of several ranks' requests the highest counts."""

    NOTHING = 0
    SAVE = 1
    REQUEUE = 2
    TERMINATE = 3
    INTERRUPT = 4


class SignalRequests:
    """Collect signals during training and act on them when the caller has saved a checkpoint."""

    def __init__(self):
        self.pending: list[Request] = []  # a handler may append at any moment, also while others are answered
        self.end_signal = signal.SIGTERM
        self.submitit: Any = None  # submitit's handler, which requeues the job, if submitit started this process

    def listen(self) -> None:
        """Install handlers that note a request; Lightning restores those before when training ends."""
        before = current_handlers(*SIGNALS)
        if callable(before.get(SUBMITIT)):
            self.submitit = before[SUBMITIT]
        for number in before:
            signal.signal(number, self._receive)

    def highest(self, count: int, device: torch.device, default: Request = Request.NOTHING) -> Request:
        """Return the highest of all ranks' first `count` requests."""
        return Request(highest(max([default, *self.pending[:count]]), device))

    def obey(self, request: Request, trainer: Trainer) -> None:
        """Requeue the job or raise what ends the run, as the request asks."""
        if request == Request.REQUEUE:
            if self.submitit:
                with suppress(SystemExit):
                    self.submitit(SUBMITIT, None)
            elif trainer.is_global_zero and IS_JOB not in os.environ:  # or the sweep requeues when all jobs have saved
                requeue()
            trainer.strategy.barrier()  # because SLURM may end the other ranks as soon as one has left
        if request in (Request.REQUEUE, Request.TERMINATE):
            raise SIGTERMException(self.end_signal)
        if request == Request.INTERRUPT:
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and Request.INTERRUPT in self.pending:
            raise KeyboardInterrupt
        log.info("%s: a checkpoint is saved after this batch", signal.Signals(number).name)
        if number in END_SIGNALS:
            self.end_signal = number
        requests = {signal.SIGINT: Request.INTERRUPT} | dict.fromkeys(END_SIGNALS, Request.TERMINATE)
        default = Request.REQUEUE if self.submitit or in_slurm() else Request.SAVE
        self.pending.append(requests.get(number, default))
