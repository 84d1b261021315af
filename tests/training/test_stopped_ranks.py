"""A rank that ceases to send signs of life is named by one of those that wait for it."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from nmt.training.stopped_ranks import StoppedRanks, open_socket


@contextmanager
def running_ranks(number: int) -> Iterator[list[StoppedRanks]]:
    """Run the threads of several ranks in this process, with a sign of life every twentieth of a second."""
    sockets = [open_socket("127.0.0.1") for _ in range(number)]
    ranks = {rank: (endpoint.getsockname(), 1000 + rank) for rank, endpoint in enumerate(sockets)}
    callbacks = [StoppedRanks(seconds=0.05) for _ in sockets]
    threads = [
        threading.Thread(target=callback.watch, args=(endpoint, rank, ranks))
        for rank, (callback, endpoint) in enumerate(zip(callbacks, sockets, strict=True))
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    yield callbacks
    for callback in callbacks:  # all at once, or the others would name those that have ended
        callback.teardown(None, None, "fit")
    for thread in threads:
        thread.join(timeout=10)
        assert not thread.is_alive()


def stop(callback: StoppedRanks, seconds: float = 0.6) -> None:
    callback.ended.set()
    time.sleep(seconds)


def test_a_rank_that_ceases_is_named_once_with_what_to_type(caplog):
    with running_ranks(3) as ranks:
        assert not caplog.messages
        stop(ranks[1])
    assert caplog.messages == [
        "rank 1 does not answer, and the others wait for it: its process 1001 on 127.0.0.1 is stopped, or that host is "
        "lost. Fix: kill -CONT 1001 there continues it; kill -KILL 1001 ends the run, and the same command resumes it"
    ]


def test_a_rank_that_ends_with_an_error_names_no_other(caplog):
    with running_ranks(2) as ranks:
        ranks[0].on_exception(None, None, RuntimeError())
        stop(ranks[1])
    assert caplog.messages == []


def test_the_first_rank_is_named_by_the_next(caplog):
    with running_ranks(2) as ranks:
        stop(ranks[0])
    assert [message.partition(" does")[0] for message in caplog.messages] == ["rank 0"]


def test_a_rank_that_was_never_heard_and_foreign_messages_are_no_reason_to_warn(caplog):
    endpoint, foreign = open_socket("127.0.0.1"), open_socket("127.0.0.1")
    ranks = {0: (endpoint.getsockname(), os.getpid()), 1: (("127.0.0.1", 9), 1001)}
    callback = StoppedRanks(seconds=0.05)
    thread = threading.Thread(target=callback.watch, args=(endpoint, 0, ranks))
    thread.start()
    for message in (b"", b"\xff" * 100, b"7", b"-1", b"0"):
        foreign.sendto(message, endpoint.getsockname())
    time.sleep(0.5)
    assert thread.is_alive()
    callback.teardown(None, None, "fit")
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert not caplog.messages


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_the_socket_is_in_the_network_of_the_main_host(address):
    with open_socket(address) as endpoint:
        assert endpoint.getsockname()[0] in ("127.0.0.1", "::1")


def test_one_rank_alone_is_not_watched():
    threads = threading.active_count()
    StoppedRanks().on_fit_start(SimpleNamespace(world_size=1), None)
    assert threading.active_count() == threads
