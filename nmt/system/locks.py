"""File locks between processes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nmt.errors import UserError

log = logging.getLogger(__name__)


class HeldLock:
    """A lock file, as it was when this process got the lock."""

    def __init__(self, path: Path):
        self.path = path
        self.identity = self._identify()

    def is_lost(self) -> bool:
        """Return whether the file was removed or replaced, so that another process can get the lock."""
        return self._identify() != self.identity

    def _identify(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def is_locked(path: Path) -> bool:
    """Return whether another process holds a lock."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError) as error:
        return isinstance(error, Timeout)
    lock.release()
    return False


@contextmanager
def lock_file(path: Path, *, message: str, waits: bool = True) -> Iterator[HeldLock]:
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
        yield HeldLock(path)
    finally:
        lock.release()
