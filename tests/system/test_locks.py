"""File locks between processes."""

import errno
import logging
import threading

import pytest
from filelock import FileLock

from nmt.errors import UserError
from nmt.system.locks import lock_file


def test_a_lock_that_is_held_is_refused_or_waited_for(tmp_path, caplog):
    lock, order = tmp_path / "lock", []

    def other():
        with lock_file(lock, message="is there; waiting"):
            order.append("the second")

    caplog.set_level(logging.INFO)
    with lock_file(lock, message="is there"):
        with pytest.raises(UserError, match="is there"), lock_file(lock, message="is there", waits=False):
            pass
        second = threading.Thread(target=other)
        second.start()
        while "is there; waiting" not in caplog.text:
            second.join(0.01)
        order.append("the first")
    second.join(10)
    assert order == ["the first", "the second"]
    assert caplog.messages == ["is there; waiting"]


def test_a_lock_is_lost_when_its_file_is_removed_or_replaced(tmp_path):
    path = tmp_path / "lock"
    with lock_file(path, message="is there") as lock:
        assert not lock.is_lost()
        path.unlink()
        assert lock.is_lost()
        with lock_file(path, message="is there", waits=False) as other:
            assert (lock.is_lost(), other.is_lost()) == (True, False)


def test_a_file_system_without_locks_gives_a_warning(tmp_path, caplog, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    lock = tmp_path / "lock"
    with lock_file(lock, message="is there", waits=False):
        pass
    assert caplog.messages == [f"{lock}: no lock (No locks available), so take care that no other process works there"]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path, caplog):
    lock, other = tmp_path / "lock", tmp_path / "other"
    other.write_text("mine")
    lock.symlink_to(other)
    with lock_file(lock, message="is there"):
        pass
    assert "no lock (Too many levels of symbolic links)" in caplog.text
    assert other.read_text() == "mine"
