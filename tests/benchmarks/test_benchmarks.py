"""The benchmarks run and write their results; speed is not tested."""

import argparse
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT

from nmt.model.output import Output

FOLDER = ROOT / "benchmarks"


def run_benchmark(script: str, output, *arguments: str) -> object:
    command = [sys.executable, str(FOLDER / script), *arguments, "--threads", "1", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


def test_growth_measures_every_point(tmp_path):
    result = run_benchmark(
        "growth.py", tmp_path / "growth.json", "--size=tiny", "--steps=3", "--most=5", "--axis=batch"
    )
    (point,) = result["points"]
    assert (point["axis"], point["value"]) == ("batch", 5)
    assert 0 < point["gflops"] < point["machine_gflops"]
    assert result["machine"]["products_gflops"]["float32"] > 1
    assert result["machine"]["threads"] == result["options"]["threads"] == 1
    assert result["options"]["steps"] == 3


@pytest.fixture
def scripts(monkeypatch):
    """Load benchmark scripts as modules that can import each other."""
    monkeypatch.syspath_prepend(FOLDER)
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


def test_every_product_of_the_loss_is_counted(scripts):
    """Scores and the gradients of vectors and weights take 2 · 6 · 7 · 11 operations each."""
    output = Output(input_size=7, vocabulary_size=11, bias=True)
    for parameter in output.parameters():
        torch.nn.init.normal_(parameter)
    vectors, targets = torch.randn(6, 7, requires_grad=True), torch.randint(11, (6,))
    counted = scripts("growth")["matrix_operations"](lambda: output.loss(vectors, targets).objective.backward())
    assert counted == 3 * 2 * 6 * 7 * 11


def test_file_locations_are_not_stored_with_the_settings(scripts):
    options = argparse.Namespace(rounds=3, output="/somewhere/x.json", folder=Path("peers"), plot=None, only=["a"])
    assert scripts("machine")["settings"](options) == {"rounds": 3, "only": ["a"]}


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("everything", ["--only", "serch"], "--only serch: there are train_small, train_small_precision, train_paper"),
        ("growth", ["--read", "kept.json", "--output", "other.json"], "--read with --output"),
    ],
)
def test_an_invalid_option_is_refused(scripts, monkeypatch, capsys, script, arguments, message):
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with pytest.raises(SystemExit, match="2"):
        scripts(script)["parse"]()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("script", ["comparison_page", "many_jobs"])
def test_help_is_printed(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(FOLDER / f"{script}.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith(f"usage: {script}.py [-h]")


def test_an_interrupted_step_is_repeated(scripts, tmp_path):
    once, made = scripts("everything")["once"], []
    folder = tmp_path / "model"

    def make_half() -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    def make_complete() -> None:
        folder.mkdir()  # fails if the incomplete folder still exists
        made.append(folder)

    with pytest.raises(KeyboardInterrupt):
        once(folder, "making it", make_half)
    once(folder, "making it", make_complete)
    once(folder, "making it", make_complete)
    assert made == [folder]


@pytest.mark.slow
def test_beams_and_ranks_are_measured(tmp_path):
    arguments = ["--size=tiny", "--steps=3", "--most=5", "--axis", "beam", "ranks"]
    result = run_benchmark("growth.py", tmp_path / "growth.json", *arguments)
    beams, ranks = ([point for point in result["points"] if point["axis"] == axis] for axis in ("beam", "ranks"))
    assert [point["value"] for point in ranks if point["words_per_second"] > 0] == [1, 2]
    assert [point["value"] for point in beams] == [1, 2, 5]
    assert beams[0]["sentences_per_second"] > beams[-1]["sentences_per_second"]


def test_a_table_and_a_plot_are_made_from_stored_measurements(tmp_path, capsys, monkeypatch):
    points = [{"axis": "length", "value": 10, "words_per_second": 1234.5, "gflops": 99.9, "peak_memory_mib": 7}]
    points += [{"axis": "length", "value": 200, "failed": -9}]
    (tmp_path / "kept.json").write_text(json.dumps({"machine": {}, "points": points}))
    picture = tmp_path / "growth.png"
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", ["growth.py", "--read", str(tmp_path / "kept.json"), "--plot", str(picture)])
    with pytest.raises(SystemExit, match="length 200 did not come to an end"):
        runpy.run_path(str(FOLDER / "growth.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[3:] == [
        "| 10 | 1,234 | 99.9 | 7 |",
        "| 200 | failed | failed | failed |",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_training_is_measured_against_the_hand_written_loop(tmp_path):
    arguments = ["--size=tiny", "--data=random", "--updates=6", "--rounds=1"]
    (turn,) = run_benchmark("train_throughput.py", tmp_path / "train.json", *arguments)["rounds"]
    assert set(turn) == {"ours", "hoisted"}
    assert 0 < turn["ours"]["outside_forward_backward"] < 1
    assert turn["ours"]["tokens_per_second"] > 0 < turn["hoisted"]["tokens_per_second"]


@pytest.mark.slow
def test_one_command_runs_all_benchmarks(tmp_path):
    command = [sys.executable, str(FOLDER / "everything.py"), "--quick", "--folder", str(tmp_path / "kept")]
    done = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name.rpartition("_")[0] for path in tmp_path.glob("*.json")} == {"train_tiny", "growth"}
    assert "## growth" in done.stdout
