"""Keep freed memory in the process, instead of giving it back to the system.

glibc returns large blocks, and gets them again page by page. A beam search with 8-bit products has sixty times fewer
page faults without that, and is 1.28 × as fast (1.09 × in float32). Training gained 1.02 ×, so it does without.
"""

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # constants of malloc.h
LARGEST = 2**25  # a block up to this size is kept; glibc accepts no more
KEPT = 2**31 - 1  # free memory that may be kept


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory; do nothing where there is no glibc, or where MALLOC_… variables are set."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, KEPT)
