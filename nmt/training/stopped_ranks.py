"""Name a rank that is stopped (SIGSTOP, Ctrl-Z, a debugger) or whose host is lost; the others wait in silence."""

import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from nmt.training.distributed import gather_from_ranks

log = logging.getLogger(__name__)

MISSED = 2  # in a row, after which a rank is named

Ranks = Mapping[int, tuple[tuple[str, int], int]]  # address and process of each


class StoppedRanks(Callback):
    """Let every rank send signs of life to the others, and warn once of a rank that ceases to.

    A thread sends them, because a rank that waits for another one does nothing else. The process group's own time limit
    of half an hour cannot be as short, because a rank may be slow and healthy.
    """

    def __init__(self, seconds: float = 15.0):  # between two signs of life
        self.seconds = seconds
        self.ended = threading.Event()
        self.warns = True

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start to send and to listen, if there are several ranks."""
        if trainer.world_size > 1:
            endpoint, rank = open_socket(os.environ["MASTER_ADDR"]), trainer.global_rank
            ranks = gather_from_ranks({rank: (endpoint.getsockname()[:2], os.getpid())})
            threading.Thread(target=self.watch, args=(endpoint, rank, ranks), daemon=True).start()

    def on_exception(self, *_: Any) -> None:
        """Warn no more, because other ranks end too; but send, or they would name this one while it ends."""
        self.warns = False

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """End the thread."""
        self.ended.set()

    def watch(self, endpoint: socket.socket, rank: int, ranks: Ranks) -> None:
        """Warn of ranks that cease to send; one that was never heard may be behind a firewall."""
        others = ranks.keys() - {rank}
        neighbours = {other for other, ((host, _), _) in ranks.items() if host == ranks[rank][0][0]}  # and itself
        missed: dict[int, int] = {}  # by rank that was heard once
        warned: set[int] = set()
        while not self.ended.is_set():
            for other in others:
                with suppress(OSError):  # the network is lost
                    endpoint.sendto(str(rank).encode(), ranks[other][0])
            heard = _listen(endpoint, self.seconds) & others
            missed = {other: times + 1 for other, times in missed.items()} | dict.fromkeys(heard, 0)
            silent = {other for other, times in missed.items() if times >= MISSED}
            if self.warns and rank == min(neighbours - silent):
                for other in sorted(silent - warned):
                    (host, _), process = ranks[other]
                    log.warning(
                        "rank %d does not answer, and the others wait for it: its process %d on %s is stopped, or that "
                        "host is lost. Fix: kill -CONT %d there continues it; kill -KILL %d ends the run, and the same "
                        "command resumes it",
                        *(other, process, host, process, process),
                    )
            warned |= silent
        endpoint.close()


def open_socket(main_address: str) -> socket.socket:
    """Open a socket at the address that this host has in the network of the main host."""
    family, _, _, _, main = socket.getaddrinfo(main_address, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect(main)  # sends nothing
        host = route.getsockname()[0]
    endpoint = socket.socket(family, socket.SOCK_DGRAM)
    endpoint.bind((host, 0))
    return endpoint


def _listen(endpoint: socket.socket, seconds: float) -> set[int]:
    """Return the ranks that are heard in this time."""
    heard, end = set(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        endpoint.settimeout(left)
        with suppress(OSError, ValueError):  # nothing came, or something foreign
            heard.add(int(endpoint.recv(20)))
    return heard
