"""Import large libraries without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FROZEN_AT_START = gc.get_freeze_count()  # Python 3.12 freezes a few objects itself


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Collect no garbage inside, and leave all objects up to the end of the first pause out of later ones.

    Imports of torch and Lightning make a million objects that stay. To search them takes a quarter of the start-up.
    """
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == FROZEN_AT_START:  # only once, because a frozen object is never collected
            gc.freeze()
        gc.enable()
