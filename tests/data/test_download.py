"""Fetching a data set, from a folder that plays the server."""

import hashlib

import pytest

from nmt.data.download import fetch, main
from nmt.errors import DataError


def test_files_are_fetched_checked_and_not_fetched_twice(tmp_path, capsys):
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "a.gz").write_bytes(b"content")
    base, digests = f"{(tmp_path / 'server').as_uri()}/", {"a.gz": hashlib.sha256(b"content").hexdigest()}
    fetch(base, digests, tmp_path / "here")
    assert (tmp_path / "here" / "a.gz").read_bytes() == b"content"
    (tmp_path / "server" / "a.gz").unlink()
    fetch(base, digests, tmp_path / "here")
    assert "there already" in capsys.readouterr().out


def test_a_wrong_or_missing_file_is_named_and_leaves_nothing(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"something else")
    for name, message in (("a.gz", "not the file expected"), ("b.gz", "cannot be fetched")):
        with pytest.raises(DataError, match=f"{name}: {message}"):
            fetch(f"{tmp_path.as_uri()}/", {name: "0" * 64}, tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_anything_but_a_known_data_set_is_answered_with_the_usage():
    with pytest.raises(SystemExit, match="usage"):
        main(["multi40k"])
