"""What one process at a time may do."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nmt.errors import UserError

log = logging.getLogger(__name__)


@contextmanager
def alone(lock: Path, *, held: str, waits: bool = True) -> Iterator[None]:
    """`held`: what to say where another process has the lock; it is waited for, or refused.

    Where the file system has no locks, nothing is held: whoever works there is told to take care.
    """
    file = FileLock(lock)
    try:
        file.acquire(timeout=0)
    except Timeout:
        if not waits:
            raise UserError(held) from None
        log.info("%s", held)
        file.acquire()
    except OSError as error:
        log.warning("%s: no lock (%s); take care that no other process is at it", lock, error.strerror)
    try:
        yield
    finally:
        file.release()
