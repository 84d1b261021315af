"""Checkpoints are whole or not there, and what is not whole is recognised."""

import os
import random
import shutil
import subprocess
from contextlib import suppress

import pytest
import torch

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint
from nmt.training import resume
from nmt.training.checkpoint_io import WholeFiles


def stored(number: float) -> dict:
    weights = {"weight": torch.full((50, 20), number), "bias": torch.arange(20)}
    return {"nmt": {"config": {}}, "global_step": int(number), "state_dict": weights}


@pytest.fixture
def folder(tmp_path):
    """A run's checkpoints after steps 1, 2 and 3."""
    for number in (1, 2, 3):
        WholeFiles().save_checkpoint(stored(number), tmp_path / "last.ckpt")
    return tmp_path


def same(one: dict, other: dict) -> bool:
    return (
        one.keys() == other.keys()
        and one["global_step"] == other["global_step"]
        and all(torch.equal(value, other["state_dict"][name]) for name, value in one["state_dict"].items())
    )


def test_the_last_and_the_one_before_it_are_kept(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "previous.ckpt"]
    assert same(load_checkpoint(folder / "last.ckpt"), stored(3))
    assert same(load_checkpoint(folder / "previous.ckpt"), stored(2))


def test_other_checkpoints_are_written_over(tmp_path):
    for number in (1, 2):
        WholeFiles().save_checkpoint(stored(number), tmp_path / "best.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt"]
    assert same(load_checkpoint(tmp_path / "best.ckpt"), stored(2))


def test_an_altered_byte_anywhere_is_recognised_or_changes_nothing(folder):
    path, draw, recognised = folder / "last.ckpt", random.Random(1), 0
    whole = path.read_bytes()
    for _ in range(400):
        place = draw.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ draw.randint(1, 255)]) + whole[place + 1 :])
        try:
            assert same(load_checkpoint(path), stored(3))
        except UserError as error:
            recognised += str(path) in str(error)
    assert recognised > 300  # the rest is padding


def test_a_cut_file_is_recognised_wherever_it_is_cut(folder):
    path = folder / "last.ckpt"
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"last\.ckpt: cannot be loaded as a checkpoint"):
            load_checkpoint(path)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(folder, caplog):
    (folder / "last.ckpt").write_bytes((folder / "last.ckpt").read_bytes()[:-1000])
    path, found = resume.last_whole(folder)
    assert path == folder / "previous.ckpt"
    assert same(found, stored(2))
    assert "last.ckpt: cannot be loaded" in caplog.text
    assert "the one before it is used" in caplog.text
    WholeFiles().save_checkpoint(stored(4), folder / "last.ckpt")  # the damaged one does not take the good one's place
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "last.ckpt.damaged", "previous.ckpt"]
    assert same(load_checkpoint(folder / "previous.ckpt"), stored(2))


def test_where_all_are_damaged_it_is_said_what_to_do(folder):
    for name in ("last.ckpt", "previous.ckpt"):
        (folder / name).write_bytes(b"no checkpoint")
    with pytest.raises(
        UserError, match=r"last\.ckpt and .*previous\.ckpt: damaged, .* resume=false begins the run anew"
    ):
        resume.last_whole(folder)
    assert resume.last_whole(folder / "nowhere") is None


@pytest.mark.parametrize("killed_in", ["torch.save", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("call", [0, 1])
def test_a_run_killed_while_it_saves_has_a_whole_checkpoint(folder, monkeypatch, killed_in, call):
    """Killed: nothing of what comes after is done, not even the clearing away."""
    module, _, name = killed_in.rpartition(".")
    owner = {"torch": torch, "os": os, "pathlib.Path": type(folder)}[module]
    real, calls = getattr(owner, name), []

    class Killed(BaseException):
        pass

    def stops(*arguments, **keywords):
        calls.append(name)
        if len(calls) > call:
            if name == "save":
                arguments[1].write(b"the beginning of a checkpoint")
            raise Killed
        return real(*arguments, **keywords)

    monkeypatch.setattr(owner, name, stops)
    monkeypatch.setattr(type(folder), "unlink", lambda *_, **__: None)
    with suppress(Killed):
        WholeFiles().save_checkpoint(stored(4), folder / "last.ckpt")
    monkeypatch.undo()
    _, found = resume.last_whole(folder)
    assert same(found, stored(3)) or same(found, stored(4))


def test_a_full_disk_leaves_the_checkpoint_there_was(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        save_checkpoint(stored(1), disk / "last.ckpt")
        big = stored(2) | {"more": torch.rand(100_000)}
        with pytest.raises(UserError, match=r"disk/last\.ckpt: cannot be written \(No space left on device\)"):
            WholeFiles().save_checkpoint(big, disk / "last.ckpt")
        assert [path.name for path in disk.iterdir()] == ["last.ckpt"]
        assert same(load_checkpoint(disk / "last.ckpt"), stored(1))
        WholeFiles().save_checkpoint(stored(2), disk / "last.ckpt")
        assert same(load_checkpoint(disk / "last.ckpt"), stored(2))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
