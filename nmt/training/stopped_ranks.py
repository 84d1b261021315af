"""Name a rank that is stopped (SIGSTOP, Ctrl-Z, a debugger), because the others wait for it in silence."""

import logging
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

from pytorch_lightning import Callback, LightningModule, Trainer

from nmt.training.distributed import gather_from_ranks

log = logging.getLogger(__name__)

SECONDS = 20.0  # between two looks; a rank that is stopped at two of them is named


class StoppedRanks(Callback):
    """Look at the processes of this machine's ranks, and warn once of each that is stopped.

    A thread looks, because the ranks that wait for the stopped one do nothing else. The process group's own time limit
    cannot be as short, because a rank may be slow and healthy.
    """

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        self.ended = threading.Event()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start to look, if there are several ranks."""
        if trainer.world_size > 1:
            ranks = gather_from_ranks({trainer.global_rank: (socket.gethostname(), os.getpid())})
            here = {rank: process for rank, (host, process) in ranks.items() if host == socket.gethostname()}
            threading.Thread(target=self._watch, args=(here,), daemon=True).start()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """End the thread."""
        self.ended.set()

    def _watch(self, processes: Mapping[int, int]) -> None:
        before: set[int] = set()
        warned: set[int] = set()
        while not self.ended.wait(self.seconds):
            stopped = {rank for rank, process in processes.items() if is_stopped(process)}
            awake = min(processes.keys() - stopped)  # one rank warns for all
            for rank in sorted(stopped & before - warned) if processes[awake] == os.getpid() else ():
                log.warning(
                    "rank %d: its process %d is stopped, and the others wait for it. Fix: kill -CONT %d continues it; "
                    "kill -KILL %d ends the run, and the same command resumes it",
                    *(rank, *[processes[rank]] * 3),
                )
            warned |= stopped & before
            before = stopped


def is_stopped(process: int) -> bool:
    """Return whether a process is stopped; False where Linux does not say."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state in ("T", "t")
