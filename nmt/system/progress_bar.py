"""The progress bar of a command."""

import sys

from tqdm import tqdm


def make_progress_bar(unit: str) -> tqdm:
    """Return a progress bar on standard error, shown only if the work takes longer than some seconds."""
    seconds = 1 if sys.stderr.isatty() else 30
    return tqdm(unit=unit, file=sys.stderr, delay=5, mininterval=seconds, miniters=1, dynamic_ncols=True)
