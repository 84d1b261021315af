"""The benchmarks run and write their results; speed is not tested."""

import argparse
import gzip
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from commands import ROOT, quick_python
from compositions import configured

from nmt.model.output import Output
from nmt.runs.trained_model import build_model

FOLDER = ROOT / "benchmarks"


def run_benchmark(script: str, output, *arguments: str) -> object:
    command = [quick_python(), str(FOLDER / script), *arguments, "--threads", "1", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


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
def test_ranks_are_measured(tmp_path):
    arguments = ["--size=tiny", "--steps=3", "--most=5", "--axis=ranks"]
    result = run_benchmark("growth.py", tmp_path / "growth.json", *arguments)
    assert [point["value"] for point in result["points"] if point["words_per_second"] > 0] == [1, 2]
    assert result["machine"]["threads"] == result["options"]["threads"] == 1
    assert result["options"]["steps"] == 3


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
    settings = ["--override=trainer.precision=bf16-mixed", "--override=matmul_precision=medium"]
    settings += ["--override=data.batches.size=4"]  # because bfloat16 is slow on many processors
    arguments = ["--size=tiny", "--data=random", "--updates=6", "--rounds=1", *settings]
    (turn,) = run_benchmark("train_throughput.py", tmp_path / "train.json", *arguments)["rounds"]
    assert set(turn) == {"ours", "hoisted"}
    in_force = {key: turn["ours"][key] for key in ("threads", "precision", "matmul_precision")}
    assert in_force == {"threads": 1, "precision": "bf16-mixed", "matmul_precision": "medium"}
    assert 0 < turn["ours"]["outside_forward_backward"] < 1
    assert turn["ours"]["tokens_per_second"] > 0 < turn["hoisted"]["tokens_per_second"]


def test_the_rate_covers_all_epochs_after_the_warm_up(scripts, monkeypatch):
    module, seconds = scripts("train_throughput"), [0.0]
    watch = module["make_watch_class"]()(warm_up=3, device="cpu")
    monkeypatch.setattr(module["time"], "perf_counter", lambda: seconds[0])
    for step in range(9):  # epochs of four batches
        trainer = SimpleNamespace(global_step=step)
        watch.on_train_batch_start(trainer, None, None, step % 4)
        seconds[0] += 2.0
        watch.on_after_backward(trainer, None)
        watch.on_train_batch_end(trainer, None, None, SimpleNamespace(global_words=10), step % 4)
    watch.on_train_end(trainer, None)
    assert watch.words == 60  # of the steps 3 to 8
    assert watch.figures()["tokens_per_second"] == 5.0


def test_every_model_that_is_measured_on_a_gpu_can_be_built(scripts):
    everything = scripts("everything")
    for mechanism in (*everything["GPU_SETTINGS"], *everything["GPU_MECHANISMS"]):
        config = configured("size=paper", "decoder=bahdanau", mechanism)
        config.model.source_vocabulary_size = config.model.target_vocabulary_size = 10
        with torch.device("meta"):
            build_model(config)


@pytest.mark.slow
def test_one_command_runs_all_benchmarks(tmp_path):
    command = [quick_python(), str(FOLDER / "everything.py"), "--quick", "--folder", str(tmp_path / "kept")]
    done = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name.rpartition("_")[0] for path in tmp_path.glob("*.json")} == {"train_tiny", "growth"}
    assert "## growth" in done.stdout
    (growth,) = (json.loads(path.read_text()) for path in tmp_path.glob("growth_*.json"))
    batch, *beams = growth["points"]
    assert (batch["axis"], batch["value"]) == ("batch", 5)
    assert 0 < batch["gflops"] < batch["machine_gflops"]
    assert growth["machine"]["products_gflops"]["float32"] > 1
    assert [(beam["axis"], beam["value"]) for beam in beams] == [("beam", 1), ("beam", 2), ("beam", 5)]
    assert all(beam["sentences_per_second"] > 0 for beam in beams)


@pytest.fixture
def corpus(tmp_path):
    """Write a small Multi30k: 200 pairs of training, one of validation and one test pair."""
    folder = tmp_path / "data" / "multi30k" / "raw"
    folder.mkdir(parents=True)
    sentences = {"en": "{} sees {} houses.", "de": "{} sieht {} Häuser."}
    words = {
        "en": ["A man", "Two dogs", "The girl", "old", "red"],
        "de": ["Ein Mann", "Zwei Hunde", "Das Kind", "alte", "rote"],
    }
    for name, count in (("train", 200), ("val", 1), ("test_2016_flickr", 1), ("test_2017_flickr", 1)):
        for language in ("en", "de"):
            *who, old, red = words[language]
            lines = [sentences[language].format(who[n % 3], red if n % 2 else old) for n in range(count)]
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path / "data"


def test_the_text_for_the_peers_holds_whole_preprocessed_lines(corpus, tmp_path):
    environment = os.environ | {"NMT_DATA": str(corpus), "NMT_CACHE": str(tmp_path / "cache")}
    command = [
        quick_python(),
        str(FOLDER / "train_throughput.py"),
        "--size=tiny",
        "--write-text",
        str(tmp_path / "text"),
    ]
    subprocess.run(command, env=environment, check=True)
    expected = {
        "en": ("a man sees old houses .", "two dogs sees red houses ."),
        "de": ("ein mann sieht alte häuser .", "zwei hunde sieht rote häuser ."),
    }
    for language, (first, last) in expected.items():
        lines = (tmp_path / "text" / f"train.{language}").read_text().splitlines()
        assert (len(lines), lines[0], lines[-1]) == (200, first, last)
        assert (tmp_path / "text" / f"valid.{language}").read_text() == f"{first}\n"


# a peer that trains on nothing: it reads the text that its configuration names, and counts the words of each update
PEER = """#!{python}
import json, sys
from pathlib import Path
if sys.argv[1] == "-c":
    print({version!r})
    sys.exit()
configuration, clock = (Path(sys.argv[place]) for place in {places})
settings = json.loads(configuration.read_text())
text = settings["data"].get("train") or settings["data"]["corpus"]["path_tgt"].removesuffix(".de")
lines = Path(text + ".de").read_text().splitlines()
words = {share} * 80 * sum(len(line.split()) + 1 for line in lines) / len(lines)
clock.write_text(json.dumps([[update, words * update] for update in range(1, 7)]))
"""
PEERS = {"joeynmt": ("2.3.0", (3, 4)), "opennmt": ("3.5.1", (3, 5)), "eole": ("0.6.4", (3, 5))}


@pytest.mark.parametrize(
    ("system", "share", "refused"), [*((system, 1.0, False) for system in PEERS), ("joeynmt", 0.2, True)]
)
def test_a_figure_of_a_peer_counts_only_if_it_trains_on_our_words(corpus, tmp_path, system, share, refused):
    version, places = PEERS[system]
    python = tmp_path / "python"
    python.write_text(PEER.format(python=sys.executable, version=version, places=places, share=share))
    python.chmod(0o755)
    size = "small" if system == "joeynmt" else "tiny"
    arguments = [f"--size={size}", "--updates=6", "--rounds=1", "--threads=1", f"--{system}={python}"]
    program = tmp_path / "measure.py"
    program.write_text(
        "import json, sys, train_throughput\n"
        "if __name__ == '__main__':  # because processes that preprocess text import this file too\n"
        "    print(json.dumps(train_throughput.measure(sys.argv.pop(1), train_throughput.parse())))"
    )
    environment = os.environ | {"NMT_DATA": str(corpus), "NMT_CACHE": str(tmp_path / "cache")}
    environment |= {"PYTHONPATH": str(FOLDER)}
    command = [quick_python(), program, system, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if refused:
        assert done.returncode == 1
        assert f"{system}: trained on 112 words an update, and our text has 560" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["words_per_update"], result["tokens_per_second"]) == (560.0, 560.0)
