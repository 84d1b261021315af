"""A job of SLURM: told by SIGUSR1 that its time is over soon, it is put into the queue again."""

import logging
import os
import signal
import subprocess

log = logging.getLogger(__name__)

WARNING = signal.SIGUSR1


def in_slurm() -> bool:
    return "SLURM_JOB_ID" in os.environ


def ending_signals() -> tuple[int, ...]:
    """The signals that end what cannot be saved in the middle, and is to be put into the queue again."""
    return (WARNING,) if in_slurm() else ()


def requeue() -> None:
    """The same command is then given again, and goes on."""
    try:
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        log.error("not put into the queue again (%s): the same command goes on with the run", error)
