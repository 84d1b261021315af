"""Memory that was freed is kept for the next step.

By default glibc gives large blocks back to the system and asks for them again, page by page: some 20,000 page faults
in a training step of the comparison size, a twentieth of its time on a virtual machine. MALLOC_… in the environment,
where it is set, has its way.
"""

import ctypes
import os

MOST = 2**30  # blocks larger than this are still the system's
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """For this process; does nothing where there is no glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(MMAP_THRESHOLD, MOST)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
