"""File locks between processes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nmt.errors import UserError

log = logging.getLogger(__name__)


@contextmanager
def lock_file(path: Path, *, message: str, waits: bool = True) -> Iterator[None]:
    """Hold a lock that one process at a time can have.

    Args:
        path: the lock file.
        message: logged before waiting for another process; with `waits=False` it is the error.
        waits: whether to wait for the lock.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not waits:
            raise UserError(message) from None
        log.info("%s", message)
        lock.acquire()
    except OSError as error:
        log.warning("%s: no lock (%s), so take care that no other process works there", path, error.strerror)
    try:
        yield
    finally:
        lock.release()
