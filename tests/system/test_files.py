"""Atomic writes."""

import json
import math
import os
from pathlib import Path

import pytest

from nmt.system.files import atomic_write, cache_folder, write_json, write_text


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


def write_to_a_full_disk(path):
    with atomic_write(path) as draft:
        draft.symlink_to("/dev/full")
        draft.write_text("new")


def test_a_full_disk_is_reported_with_the_path(tmp_path):
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_to_a_full_disk(path)
    assert os.listdir(tmp_path) == []


def test_two_processes_that_write_one_file_each_write_it_completely(tmp_path):
    """In containers both may have the number 1."""
    path = tmp_path / "a.txt"
    with atomic_write(path) as first:
        first.write_text("first, and long")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first, and long"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_without_a_name_the_cache_is_in_the_working_directory(monkeypatch):
    for name, folder in (("", ".cache/nmt"), ("mine", "mine")):
        monkeypatch.setenv("NMT_CACHE", name)
        assert cache_folder() == Path(folder)


def test_json_holds_null_where_javascript_knows_no_number(tmp_path):
    content = {"perplexity": math.inf, "scores": [1.5, math.nan, {"loss": -math.inf}]}
    write_json(tmp_path / "a.json", content)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"perplexity": None, "scores": [1.5, None, {"loss": None}]}
