"""End a command: an error as one line on standard error, and an exit status."""

import codecs
import functools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from nmt.cli.new_folder import remove_new_folders
from nmt.config.explain import AFTER_A_FAILED_JOB, SHOW_TRACEBACK, explain, explain_with_log, find_explanation
from nmt.errors import ConfigurationError, UserError, make_printable
from nmt.runs.folder import restore_composition
from nmt.system.signals import END_SIGNALS, exit_of, raise_on_signals


class PrintableRecord(logging.LogRecord):
    """A log record whose message a terminal only shows."""

    def getMessage(self) -> str:  # noqa: N802 – the name in logging
        """Return the message."""
        return make_printable(super().getMessage())


def exit_with_one_line_errors(command: Callable[[], None]) -> Callable[[], None]:
    """Decorate a command: an error becomes one line and an exit status; HYDRA_FULL_ERROR=1 shows the traceback."""

    @functools.wraps(command)
    def guarded() -> None:
        _open_closed_streams()
        logging.setLogRecordFactory(PrintableRecord)
        if SHOW_TRACEBACK:
            return command()
        try:
            _check_utf8()
            with raise_on_signals(exit_of, *END_SIGNALS):  # so that a command's temporary files and processes end too
                return command()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)
        except Exception as error:
            remove_new_folders()
            sys.exit(make_printable(f"error: {explain(error)}"))

    return guarded


def _open_closed_streams() -> None:
    """Open streams that the caller has closed, because libraries read and write them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 – until the process ends


def _check_utf8() -> None:
    """Refuse texts or names that are not UTF-8, because a run would fail when it first writes one."""
    streams = filter(None, (sys.stdout.encoding, sys.stderr.encoding))  # a stream in memory has none
    encodings = {codecs.lookup(encoding).name for encoding in (sys.getfilesystemencoding(), *streams)}
    if others := encodings - {"utf-8"}:
        raise ConfigurationError(
            f"the locale or PYTHONIOENCODING: text is {', '.join(sorted(others))} here, and must be UTF-8. "
            "Fix: unset PYTHONIOENCODING; export PYTHONUTF8=1"
        )
    for argument in sys.argv:
        if re.search("[\ud800-\udfff]", argument):  # as Python has bytes that are not UTF-8
            raise ConfigurationError(f"{argument}: its name is not UTF-8. Fix: rename the file or folder")


@contextmanager
def exit_on_job_error() -> Iterator[None]:
    """End a single run with one line; in a job of Hydra's other launchers raise it, because they run the other jobs."""
    exits = HydraConfig.get().mode == RunMode.RUN and not SHOW_TRACEBACK
    folder = Path(HydraConfig.get().runtime.output_dir)
    if exits:  # or the ranks that a run starts would show tracebacks
        os.environ.pop("HYDRA_FULL_ERROR", None)
    try:
        yield
    except Exception as error:
        restore_composition(folder)
        log = folder / "train.log"
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise UserError(f"{log}: the job failed: {explain(error)} ({AFTER_A_FAILED_JOB})") from error
        if not exits:
            raise
        message = explain_with_log(error, log)  # before the folder of the log is removed
        if find_explanation(error) is not None or not log.is_file():
            remove_new_folders()
        sys.exit(make_printable(f"error: {message}"))
