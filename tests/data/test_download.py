"""Download of a data set, with a folder as the server."""

import hashlib

import pytest

from nmt.data.download import download, main
from nmt.errors import DataError


def test_files_are_downloaded_checked_and_not_downloaded_twice(tmp_path, capsys):
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "a.gz").write_bytes(b"content")
    base, digests = f"{(tmp_path / 'server').as_uri()}/", {"a.gz": hashlib.sha256(b"content").hexdigest()}
    download(base, digests, tmp_path / "here")
    assert (tmp_path / "here" / "a.gz").read_bytes() == b"content"
    (tmp_path / "server" / "a.gz").unlink()
    download(base, digests, tmp_path / "here")
    assert "already there" in capsys.readouterr().out


def test_wrong_or_missing_file_is_named_and_nothing_is_written(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"something else")
    for name, message in (("a.gz", "not the expected file"), ("b.gz", "cannot be downloaded")):
        with pytest.raises(DataError, match=f"{name}: {message}"):
            download(f"{tmp_path.as_uri()}/", {name: "0" * 64}, tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_unknown_data_set_prints_the_usage():
    with pytest.raises(SystemExit, match="usage"):
        main(["multi40k"])
