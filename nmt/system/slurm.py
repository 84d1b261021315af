"""SLURM: a job is warned by SIGUSR1 shortly before its time ends, and can requeue itself."""

import logging
import os
import signal
import subprocess

log = logging.getLogger(__name__)

TIME_WARNING = signal.SIGUSR1


def in_slurm() -> bool:
    """Return whether this process belongs to a SLURM job."""
    return "SLURM_JOB_ID" in os.environ


def warning_signals() -> tuple[int, ...]:
    """Return the signals that end work which cannot be saved halfway; the job is then requeued."""
    return (TIME_WARNING,) if in_slurm() else ()


def job_number() -> str | None:
    """Return the number of this job; for a task of an array that of the task, because the other means all tasks."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def is_requeued(job: str | None) -> bool:
    """Return whether SLURM runs again the command of this job: it then resumes its runs, even with resume=false."""
    return os.environ.get("SLURM_RESTART_COUNT", "0") != "0" and job == job_number()


def requeue() -> None:
    """Put this job into the queue again, where the same command resumes the run."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {TIME_WARNING})  # because a second one would kill scontrol
    try:
        subprocess.run(["scontrol", "requeue", job_number()], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        log.error("the job was not requeued (%s). Fix: give the same command again to resume", error)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
