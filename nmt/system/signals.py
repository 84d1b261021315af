"""What a program does when it is told to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)  # told to end, or its terminal is gone


def handlers(*numbers: int) -> dict[int, Any]:
    """Who answers these signals now: of those that this process may answer. Outside the main thread it may none, and
    what runs under nohup is to outlive its terminal."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in numbers}
    return {number: own for number, own in found.items() if (number, own) != (signal.SIGHUP, signal.SIG_IGN)}


@contextmanager
def raising(error: Callable[[int], BaseException], *numbers: int) -> Iterator[None]:
    """Within, these signals raise."""

    def end(number: int, frame: FrameType | None) -> None:
        raise error(number)

    before = handlers(*numbers)
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)
