"""Checkpoints are written atomically, and damaged ones are recognised."""

import os
import random
import shutil
import subprocess
from contextlib import suppress

import pytest
import torch

from nmt.errors import UserError
from nmt.runs.checkpoint_file import load_checkpoint, locate_checkpoint, save_checkpoint
from nmt.runs.training_folder import find_last_checkpoint
from nmt.training.checkpoint_io import AtomicCheckpointIO


def stored(number: float) -> dict:
    weights = {"weight": torch.full((50, 20), number), "bias": torch.arange(20)}
    return {"nmt": {"config": {}}, "global_step": int(number), "state_dict": weights}


@pytest.fixture
def folder(tmp_path):
    """A run's checkpoints after steps 1, 2 and 3."""
    for number in (1, 2, 3):
        AtomicCheckpointIO().save_checkpoint(stored(number), tmp_path / "last.ckpt")
    return tmp_path


def same(one: dict, other: dict) -> bool:
    return (
        one.keys() == other.keys()
        and one["global_step"] == other["global_step"]
        and all(torch.equal(value, other["state_dict"][name]) for name, value in one["state_dict"].items())
    )


def test_the_last_two_checkpoints_are_kept(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "previous.ckpt"]
    assert same(load_checkpoint(folder / "last.ckpt"), stored(3))
    assert same(load_checkpoint(folder / "previous.ckpt"), stored(2))


def test_other_checkpoints_are_overwritten(tmp_path):
    for number in (1, 2):
        AtomicCheckpointIO().save_checkpoint(stored(number), tmp_path / "best.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt"]
    assert same(load_checkpoint(tmp_path / "best.ckpt"), stored(2))


def test_an_altered_byte_anywhere_is_recognised_or_changes_nothing(folder):
    path, draw, recognised = folder / "last.ckpt", random.Random(1), 0
    content = path.read_bytes()
    for _ in range(400):
        place = draw.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ draw.randint(1, 255)]) + content[place + 1 :])
        try:
            assert same(load_checkpoint(path), stored(3))
        except UserError as error:
            recognised += str(path) in str(error)
    assert recognised > 300  # the rest is padding


def test_a_truncated_file_is_recognised(folder):
    path = folder / "last.ckpt"
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(UserError, match=r"last\.ckpt: cannot be loaded as a checkpoint"):
            load_checkpoint(path)


def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(folder, caplog):
    (folder / "last.ckpt").write_bytes((folder / "last.ckpt").read_bytes()[:-1000])
    path, content = find_last_checkpoint(folder)
    assert path == folder / "previous.ckpt"
    assert same(content, stored(2))
    assert "last.ckpt: cannot be loaded" in caplog.text
    assert "trying the checkpoint before it" in caplog.text
    AtomicCheckpointIO().save_checkpoint(
        stored(4), folder / "last.ckpt"
    )  # the damaged one does not take the good one's place
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "last.ckpt.damaged", "previous.ckpt"]
    assert same(load_checkpoint(folder / "previous.ckpt"), stored(2))


def test_an_error_says_what_to_do_when_all_checkpoints_are_damaged(folder):
    for name in ("last.ckpt", "previous.ckpt"):
        (folder / name).write_bytes(b"no checkpoint")
    with pytest.raises(
        UserError, match=r"last\.ckpt and .*previous\.ckpt: damaged, .* resume=false starts the run again"
    ):
        find_last_checkpoint(folder)
    assert find_last_checkpoint(folder / "nowhere") is None


@pytest.mark.parametrize("killed_in", ["torch.save", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("call", [0, 1])
def test_a_run_killed_while_saving_keeps_a_valid_checkpoint(folder, monkeypatch, killed_in, call):
    """A killed process does nothing more; it does not even remove its temporary file."""
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
        AtomicCheckpointIO().save_checkpoint(stored(4), folder / "last.ckpt")
    monkeypatch.undo()
    _, content = find_last_checkpoint(folder)
    assert same(content, stored(3)) or same(content, stored(4))


def test_a_full_disk_leaves_the_former_checkpoint(tmp_path):
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
            AtomicCheckpointIO().save_checkpoint(big, disk / "last.ckpt")
        assert [path.name for path in disk.iterdir()] == ["last.ckpt"]
        assert same(load_checkpoint(disk / "last.ckpt"), stored(1))
        AtomicCheckpointIO().save_checkpoint(stored(2), disk / "last.ckpt")
        assert same(load_checkpoint(disk / "last.ckpt"), stored(2))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_sweep_in_place_of_a_run_is_named(tmp_path):
    (tmp_path / "sweep.json").touch()
    with pytest.raises(UserError, match=rf"^run={tmp_path}: is a sweep, not a run. Fix: {tmp_path}/\* names its runs$"):
        locate_checkpoint(tmp_path)
