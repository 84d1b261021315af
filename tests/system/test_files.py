"""Atomic writes."""

import os

import pytest

from nmt.system.files import atomic_write, write_text


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with atomic_write(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failed_write_leaves_the_former_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
