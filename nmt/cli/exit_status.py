"""End a command: an error as one line on standard error, and an exit status."""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from nmt.config.explain import WANTS_TRACEBACK, _unforeseen, explain
from nmt.config.schema import check_composed, check_kinds
from nmt.runs.folder import give_back_composition


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Errors as one line on standard error and an exit code; HYDRA_FULL_ERROR=1 shows the traceback."""
    if WANTS_TRACEBACK:
        yield
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then lets errors through to here
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        sys.exit(f"error: {explain(error)}")


def leaves_at_once(job: Callable[[DictConfig], Any]) -> Callable[[DictConfig], Any]:
    """A single run's error is explained and ends the program; in a sweep Hydra goes on to the other jobs first."""

    @functools.wraps(job)
    def guarded(config: DictConfig) -> Any:
        is_single = HydraConfig.get().mode == RunMode.RUN
        if is_single and not WANTS_TRACEBACK:  # or the ranks it starts take what was set for Hydra for the user's wish
            os.environ.pop("HYDRA_FULL_ERROR", None)
        try:
            check_kinds(HydraConfig.get().overrides.task)
            check_composed(config)
            return job(config)
        except Exception as error:
            give_back_composition(Path(HydraConfig.get().runtime.output_dir))
            if not is_single or WANTS_TRACEBACK:
                raise
            sys.exit(f"error: {explain(error)}{_more_of(error)}")

    return guarded


def _more_of(error: BaseException) -> str:
    """Where the traceback is of what nobody foresaw."""
    log = Path(HydraConfig.get().runtime.output_dir) / "train.log"
    return f" (traceback: {log})" if explain(error) == _unforeseen(error) and log.is_file() else ""
