"""End a command: an error as one line on standard error, and an exit status."""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from nmt.cli.new_folder import remove_new_folders
from nmt.config.explain import SHOW_TRACEBACK, explain, find_explanation
from nmt.runs.folder import restore_composition


def exit_with_one_line_errors(command: Callable[[], None]) -> Callable[[], None]:
    """Decorate a command: an error becomes one line and an exit status; HYDRA_FULL_ERROR=1 shows the traceback."""

    @functools.wraps(command)
    def guarded() -> None:
        if SHOW_TRACEBACK:
            return command()
        try:
            return command()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)
        except Exception as error:
            remove_new_folders()
            sys.exit(f"error: {explain(error)}")

    return guarded


@contextmanager
def exit_on_job_error() -> Iterator[None]:
    """End a single run with one line; in a sweep raise the error, because Hydra first runs the other jobs."""
    exits = HydraConfig.get().mode == RunMode.RUN and not SHOW_TRACEBACK
    folder = Path(HydraConfig.get().runtime.output_dir)
    if exits:  # or the ranks that a run starts would show tracebacks
        os.environ.pop("HYDRA_FULL_ERROR", None)
    try:
        yield
    except Exception as error:
        restore_composition(folder)
        if not exits:
            raise
        log = folder / "train.log"
        if find_explanation(error) is None and log.is_file():
            sys.exit(f"error: {explain(error)} (traceback: {log})")
        remove_new_folders()
        sys.exit(f"error: {explain(error)}")
