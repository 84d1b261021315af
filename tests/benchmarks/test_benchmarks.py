"""That the benchmarks run, not how fast."""

import json
import runpy
import subprocess
import sys

import pytest
from commands import ROOT

FOLDER = ROOT / "benchmarks"


def figures(script: str, output, *arguments: str) -> object:
    command = [sys.executable, str(FOLDER / script), *arguments, "--threads", "1", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


def test_growth_measures_every_point(tmp_path):
    arguments = ["--size=tiny", "--steps=3", "--most=5", "--axis", "batch", "beam"]
    found = figures("growth.py", tmp_path / "growth.json", *arguments)
    points = {(point["axis"], point["value"]): point for point in found["points"]}
    assert set(points) == {("batch", 5), ("beam", 1), ("beam", 2), ("beam", 5)}
    assert not any("failed" in point for point in points.values())
    assert 0 < points["batch", 5]["gflops"] < 1000
    assert points["beam", 1]["sentences_per_second"] > points["beam", 5]["sentences_per_second"]
    assert found["machine"]["products_gflops"]["float32"] > 1


@pytest.mark.slow
def test_ranks_are_measured(tmp_path):
    found = figures("growth.py", tmp_path / "growth.json", "--size=tiny", "--steps=3", "--axis", "ranks")
    assert [point["value"] for point in found["points"] if point["words_per_second"] > 0] == [1, 2]


def test_a_table_and_a_plot_are_made_of_kept_figures(tmp_path, capsys, monkeypatch):
    points = [{"axis": "length", "value": 10, "words_per_second": 1234.5, "gflops": 99.9, "peak_memory_mib": 7}]
    points += [{"axis": "length", "value": 200, "failed": -9}]
    (tmp_path / "kept.json").write_text(json.dumps({"machine": {}, "points": points}))
    picture = tmp_path / "growth.png"
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", ["growth.py", "--read", str(tmp_path / "kept.json"), "--plot", str(picture)])
    runpy.run_path(str(FOLDER / "growth.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[3:] == [
        "| 10 | 1,234 | 99.9 | 7 |",
        "| 200 | failed | failed | failed |",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_training_is_measured_beside_the_hand_written_loop(tmp_path):
    arguments = ["--size=tiny", "--data=random", "--updates=6", "--rounds=1"]
    (turn,) = figures("train_throughput.py", tmp_path / "train.json", *arguments)["rounds"]
    assert set(turn) == {"ours", "hoisted"}
    assert 0 < turn["ours"]["outside_forward_backward"] < 1
    assert turn["ours"]["tokens_per_second"] > 0 < turn["hoisted"]["tokens_per_second"]


@pytest.mark.slow
def test_everything_runs_by_one_command(tmp_path):
    command = [sys.executable, str(FOLDER / "everything.py"), "--quick", "--folder", str(tmp_path / "kept")]
    done = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name.rpartition("_")[0] for path in tmp_path.glob("*.json")} == {"train_tiny", "growth"}
    assert "## growth" in done.stdout
