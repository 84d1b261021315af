"""Set the number of CPU threads of torch."""

import os
from typing import Any

import torch

from nmt.errors import ConfigurationError

MAX_THREADS = 1024  # with 2048, OpenMP ends in a segmentation fault


def check_threads(threads: Any) -> None:
    """Refuse an invalid number of threads; null leaves the number to torch."""
    is_number = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (is_number and 1 <= threads <= MAX_THREADS):
        raise ConfigurationError(f"threads={threads}: must be a number of threads from 1 to {MAX_THREADS}, or null")


def set_threads(threads: int | None) -> None:
    """Set the number of threads, after a check."""
    check_threads(threads)
    if threads:
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # or Lightning's launcher of ranks sets its own number
