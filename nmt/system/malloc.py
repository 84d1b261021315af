"""Memory that was freed is kept for the next step.

By default glibc gives large blocks back to the system and asks for them again, page by page: some 20,000 page faults
in a training step of the comparison size, a twentieth of its time on a virtual machine. MALLOC_… in the environment,
where it is set, has its way.
"""

import ctypes
import os

MOST = 2**30, 2**25  # blocks larger than this are still the system's; older versions of glibc keep none above 32 MiB
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """For this process; does nothing where there is no glibc. A threshold refused must not be followed by another
    one granted: any that is set stops glibc from learning its own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if not mallopt or any(name.startswith("MALLOC_") for name in os.environ):
        return
    if any(mallopt(MMAP_THRESHOLD, most) for most in MOST):
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
