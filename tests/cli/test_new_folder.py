"""A run or sweep writes to no file outside its folder."""

import os

import pytest
from commands import answer

from nmt.cli.new_folder import _refuse_links_and_pipes

LINKS = ("metrics.csv", "train.log", ".lock", ".hydra", ".hydra/config.yaml", "metrics.csv.damaged")
LINKS += ("checkpoints/last.ckpt", "checkpoints/.hydra", "checkpoints/.hydra/config.yaml")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("there", ["a file", "nothing"])
def test_a_run_with_a_link_out_of_its_folder_is_refused_and_nothing_written(tmp_path, capsys, monkeypatch, link, there):
    secret, path = tmp_path / "secret", tmp_path / "run" / link
    if there == "a file":
        secret.write_text("mine")
    path.parent.mkdir(parents=True)
    path.symlink_to(secret)
    status, stderr = answer("train", f"hydra.run.dir={tmp_path}/run", capture=capsys, monkeypatch=monkeypatch)
    folder = f"{tmp_path}/run/checkpoints" if link.startswith("checkpoints/") else f"{tmp_path}/run"
    name = link.removeprefix("checkpoints/")
    message = f"error: hydra.run.dir={folder}: {name} is a link out of its folder. Fix: copy the file there"
    assert (status, stderr.strip()) == (1, message)
    assert secret.read_text() == "mine" if there == "a file" else not secret.exists()
    assert [found for found in (tmp_path / "run").rglob("*") if found.is_file() and not found.is_symlink()] == []


@pytest.mark.parametrize("pipe", ["train.log", ".hydra/config.yaml", "metrics.csv", "checkpoints/last.ckpt"])
def test_a_run_with_a_pipe_is_refused_because_reading_it_would_never_end(tmp_path, capsys, monkeypatch, pipe):
    path = tmp_path / "run" / pipe
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    status, stderr = answer("train", f"hydra.run.dir={tmp_path}/run", capture=capsys, monkeypatch=monkeypatch)
    assert status == 1
    assert f"it is a pipe or a device, not a regular file: '{path}'" in stderr


def test_a_sweep_with_a_link_out_of_its_folder_is_refused(tmp_path, capsys, monkeypatch):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "multirun.yaml").symlink_to(tmp_path / "secret")
    arguments = ("-m", "seed=1,2", f"hydra.sweep.dir={tmp_path}/sweep")
    status, stderr = answer("train", *arguments, capture=capsys, monkeypatch=monkeypatch)
    assert (status, stderr.strip().endswith("copy the file there")) == (1, True)
    assert not (tmp_path / "secret").exists()


def test_checkpoints_and_the_folder_itself_may_be_links_and_so_may_files_within_it(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "best.ckpt").touch()
    (disk / "last.ckpt").symlink_to("best.ckpt")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(disk)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    _refuse_links_and_pipes("hydra.run.dir", tmp_path / "link")
