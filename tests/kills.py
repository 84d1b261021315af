"""End a process at a chosen call, for tests of what a kill leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class KilledError(BaseException):
    """The end of a process that does nothing more."""


@contextmanager
def killed_at_call(number: int, *functions: tuple[Any, str]) -> Iterator[list[str]]:
    """End the process at a call of these functions, counted from 0; yield the names of the calls so far."""
    calls: list[str] = []

    def replacement(owner, name):
        real = getattr(owner, name)

        def call_or_end(*arguments, **keywords):
            calls.append(name)
            if len(calls) > number:
                raise KilledError
            return real(*arguments, **keywords)

        return patch.object(owner, name, call_or_end)

    patches = [replacement(*function) for function in functions]
    for one in patches:
        one.start()
    try:
        yield calls
    except KilledError:
        pass
    finally:
        for one in patches:
            one.stop()
