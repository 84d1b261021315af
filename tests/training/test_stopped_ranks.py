"""A stopped rank is named by one of those that wait for it."""

import os
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from nmt.training.stopped_ranks import StoppedRanks, is_stopped


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def stop(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # because the signal takes a moment to arrive


def watch(processes: dict[int, int], seconds: float = 0.6) -> None:
    callback = StoppedRanks(seconds=0.05)
    thread = threading.Thread(target=callback._watch, args=(processes,))
    thread.start()
    time.sleep(seconds)
    callback.teardown(None, None, "fit")
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_stopped_rank_is_named_once_with_what_to_type(sleeper, caplog):
    stop(sleeper)
    watch({0: os.getpid(), 1: sleeper.pid})
    number = sleeper.pid
    assert caplog.messages == [
        f"rank 1: its process {number} is stopped, and the others wait for it. Fix: kill -CONT {number} continues it; "
        f"kill -KILL {number} ends the run, and the same command resumes it"
    ]


def test_the_first_rank_is_named_by_the_next(sleeper, caplog):
    stop(sleeper)
    watch({0: sleeper.pid, 1: os.getpid()})
    assert [message.partition(":")[0] for message in caplog.messages] == ["rank 0"]


def test_of_several_ranks_that_wait_the_first_warns(sleeper, caplog):
    stop(sleeper)
    watch({0: os.getppid(), 1: os.getpid(), 2: sleeper.pid})
    assert not caplog.messages


def test_a_rank_that_sleeps_or_has_ended_is_not_stopped(sleeper, caplog):
    watch({0: os.getpid(), 1: sleeper.pid})
    stop(sleeper)
    assert is_stopped(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert not is_stopped(sleeper.pid)
    assert not caplog.messages


def test_one_rank_alone_is_not_watched():
    threads = threading.active_count()
    StoppedRanks().on_fit_start(SimpleNamespace(world_size=1), None)
    assert threading.active_count() == threads
