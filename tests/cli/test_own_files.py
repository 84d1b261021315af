"""No command writes its output over a file of a run or a sweep."""

import io
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from nmt.cli.average_checkpoints import main as average
from nmt.cli.compare import compare
from nmt.cli.translate import translate
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError


def run(command: str, output: Path, monkeypatch) -> None:
    if command == "average":
        monkeypatch.setattr(sys, "argv", ["average", "a.ckpt", "b.ckpt", f"output={output}"])
        average()
        return
    settings = OmegaConf.merge(load_defaults(command), {"output": str(output)})
    if command == "compare":
        compare(["run"], settings)
    else:
        translate(settings, io.BytesIO(), io.StringIO())


@pytest.mark.parametrize(
    ("command", "output", "file"),
    [
        ("translate", "summary.json", "summary.json"),
        ("translate", "best.ckpt", "best.ckpt"),
        ("translate", "hypotheses.txt", "hypotheses.txt"),
        ("compare", "sweep.html", "sweep.json"),
        ("compare", "scores.html", "scores.json"),
        ("compare", "table.html", "table.md"),
        ("average", "last.ckpt", "last.ckpt"),
    ],
)
def test_a_file_of_a_run_is_not_replaced(tmp_path, monkeypatch, command, output, file):
    (tmp_path / file).write_text("precious")
    with pytest.raises((ConfigurationError, SystemExit)) as error:
        run(command, tmp_path / output, monkeypatch)
    message = (
        f"output={tmp_path / output}: would replace {tmp_path / file}, which may belong to a run. Fix: name another"
    )
    assert message in str(error.value)
    assert (tmp_path / file).read_text() == "precious"


def test_a_mean_does_not_replace_its_checkpoints(tmp_path, monkeypatch):
    (tmp_path / "b.ckpt").write_text("precious")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"output=b\.ckpt: would replace a checkpoint to be averaged"):
        run("average", Path("b.ckpt"), monkeypatch)
    assert (tmp_path / "b.ckpt").read_text() == "precious"
