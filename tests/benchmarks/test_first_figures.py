"""Each benchmark measures something tiny, and its figures count what they should; peers are stood in for by a program.

`growth.py`, `train_throughput.py`, `everything.py` and the training of the peers: test_benchmarks.py; `many_jobs.py`:
tests/launch.
"""

import gzip
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, quick_python
from untrained import make_content, write_checkpoint

FOLDER = ROOT / "benchmarks"
TINY_RUN = ("size=tiny", "data.train.count=60", "data.valid.count=8", "data.tests.test.count=5", "logger=none")


def run_benchmark(script: str, *arguments: object, **environment: str) -> str:
    command = [quick_python(), str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_table(output: str) -> list[dict[str, str]]:
    """Return the rows of a printed table by the names of its columns."""
    names, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if "|" in line)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.fixture
def run(tmp_path) -> Path:
    return write_checkpoint(tmp_path / "run", make_content(*TINY_RUN))


def test_every_kind_of_epoch_is_planned():
    plans = {row["plan"]: row for row in read_table(run_benchmark("epoch_plan.py", "--pairs", 1000))}
    assert plans.keys() == {"sentences, pool=20", "sentences, pool=0", "tokens"}
    assert plans["sentences, pool=20"]["batches"] == plans["sentences, pool=0"]["batches"] == "13"  # of 80 pairs
    assert 7 < int(plans["tokens"]["batches"]) < 13  # 1,000 pairs of 35 words on the longer side, 4,096 words a batch
    assert all(float(plan["peak memory, MiB"]) >= float(plan["of them before the plan"]) > 1 for plan in plans.values())


def test_preparing_a_corpus_is_measured():
    (row,) = read_table(run_benchmark("prepare_throughput.py", "--pairs", 300))
    assert row["pairs"] == "300"
    assert float(row["cores kept busy"]) > 0 < int(row["pairs/s"].replace(",", ""))


def test_a_large_vocabulary_is_measured_with_and_without_lists(tmp_path):
    arguments = ("--size", "tiny", "--words", 3000, "--steps", 3, "--rounds", 1, "--threads", 1)
    rows = read_table(run_benchmark("large_vocabulary.py", *arguments, "--output", tmp_path / "figures.json"))
    whole, lists = (row["words in it"] for row in rows)
    assert (whole, [row["softmax"] for row in rows]) == ("3,000", ["whole", "lists"])
    assert 2000 <= int(lists.replace(",", "")) < 3000  # the frequent words, and translations of those of the batch
    figures = json.loads((tmp_path / "figures.json").read_text())["rounds"]
    assert all(turn["seconds_per_step"] > 0 < turn["sentences_per_second"] for turn in figures)


def test_the_start_of_both_commands_is_measured(run, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    startup = runpy.run_path(str(FOLDER / "startup.py"))
    for start, subject in ((startup["time_first_step"], [*TINY_RUN, "threads=1"]), (startup["time_first_line"], run)):
        passed, on_processor = start(subject)
        assert passed > on_processor / 2 > 0.1  # at most two threads work


def test_a_comparison_page_is_opened_and_searched(browser):
    output = run_benchmark("comparison_page.py", 2, 6)
    assert output.startswith("2 runs, 6 sentences: written in ")
    assert re.search(r"opened in \d+\.\d+ s, searched in \d+\.\d+ s, alignments opened in \d", output)


# a peer that "trains" by saving an empty model, and "translates" each source as its words twice, ten sentences a second
PEER = """#!{python}
import json, sys
from pathlib import Path
if sys.argv[1] == "-c":
    print({version!r})
    sys.exit()
verb, configuration, last = sys.argv[2], json.loads(Path(sys.argv[3]).read_text()), Path(sys.argv[-1])
if verb == "train-in-peer":
    updates = configuration.get("train_steps", 4)
    if "save_model" in configuration:
        Path(configuration["save_model"] + f"_step_{{updates}}.pt").touch()
    last.write_text(json.dumps([[update, 10 * update] for update in range(1, updates + 1)]))
else:
    lines = Path(configuration.get("src") or configuration["data"]["test"] + ".en").read_text().splitlines()
    words = 2 * sum(len(line.split()) for line in lines) / len(lines)
    figures = {{"sentences_per_second": 10, "words_per_sentence": words, "peak_memory_mib": 1}}
    last.write_text(json.dumps({{beam: figures for beam in sys.argv[{beams}].split(",")}}))
"""
PEERS = {"joeynmt": ("joeynmt_search.py", "2.3.0", 4), "opennmt": ("opennmt_peer.py", "3.5.1", 5)}


def test_our_search_is_measured_beside_that_of_the_peers(run, tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "de"):
            (text / f"{name}.{language}").write_text("a b c\nd\n")
    arguments = []
    for peer, (script, version, beams) in PEERS.items():
        python, model = tmp_path / f"{peer}_python", tmp_path / peer / "model"
        python.write_text(PEER.format(python=sys.executable, version=version, beams=beams))
        python.chmod(0o755)
        named = ("--python", python, "--data", text, "--model", model)
        run_benchmark(script, "train", *named, "--updates", 4, "--threads", 1)
        arguments += [f"--{peer}", python, f"--{peer}-model", model]
    arguments += ["--text", text, "--beams", 1, 2, "--search", "beam=2 int8=true", "--rounds", 1, "--threads", 1]
    output = run_benchmark("search_throughput.py", "--run", run, "--test", "test", *arguments)
    rows = read_table_of_searches(output)
    assert [row[0] for row in rows] == ["1", "2", "2 int8=true"]
    for _, speed, words, _, _, *peers in rows:
        assert peers[:2] == ["10", "4.0"]  # sentences a second, and words of each
        assert peers == [*peers[:4], "10", "4.0", peers[6], peers[3]]  # both peers alike
        assert float(speed) > 0 < float(words)


def read_table_of_searches(output: str) -> list[list[str]]:
    """Return the rows; the names of the columns of both peers are the same."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if "|" in line][2:]


def test_an_aligner_is_scored_on_the_gold_links(tmp_path):
    sides = [["the", "old", "red", "house", "sleeps", "here"], ["das", "alte", "rote", "haus", "schläft", "hier"]]
    pairs = [tuple(" ".join(words[n % 4 : n % 4 + 3]) for words in sides) for n in range(40)]
    folders = {"multi30k/raw": ("en", "fr"), "3am-zhen": ("zh", "en"), "pydocs-zhen": ("zh", "en")}
    for folder, languages in folders.items():
        (tmp_path / folder).mkdir(parents=True)
        for language, side in zip(languages, zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in side).encode()
            (tmp_path / folder / f"train.{language}.gz").write_bytes(gzip.compress(text))
    (tmp_path / "alignments").mkdir()
    for language in ("enfr", "zhen"):
        (tmp_path / "alignments" / f"{language}.src-tgt").write_text("".join(f"{s} ||| {t}\n" for s, t in pairs))
        (tmp_path / "alignments" / f"{language}.gold").write_text("1-1 2-2 3-3\n" * 40)
    run_benchmark("aligners.py", "--output", tmp_path / "figures.json", NMT_DATA=str(tmp_path))
    results = json.loads((tmp_path / "figures.json").read_text())["results"]
    ours = {(one["pair"], one["text"]): one for one in results if one["aligner"] == "thot"}
    assert ours.keys() == {(pair, text) for pair in ("enfr", "zhen") for text in ("gold", "text")}
    assert ours["enfr", "gold"]["sentences"] == 40 < ours["enfr", "text"]["sentences"]
    assert ours["enfr", "gold"]["links"]["union"]["table_ten"] > 50
    assert ours["enfr", "gold"]["same_again"] is True
