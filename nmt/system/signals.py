"""Signals that ask a process to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # a request to end, and a closed terminal
NOHUP = (signal.SIGHUP, signal.SIG_IGN)


def current_handlers(*numbers: int) -> dict[int, Any]:
    """Return the handlers of those signals that this process may handle.

    Only the main thread may handle signals. SIGHUP is left alone under nohup, which ignores it on purpose.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in handlers.items() if (number, handler) != NOHUP}


def exit_of(number: int) -> SystemExit:
    """Return the exit of a process that a signal ends."""
    return SystemExit(128 + number)


@contextmanager
def raise_on_signals(error: Callable[[int], BaseException], *numbers: int) -> Iterator[None]:
    """Raise `error(number)` when one of these signals comes in this context."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise error(number)

    before = current_handlers(*numbers)
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
