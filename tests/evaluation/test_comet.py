"""COMET of stored evaluations, by a program that takes the options of comet-score and writes its JSON."""

import json
import os
import stat
import sys
from types import SimpleNamespace

import pytest
from commands import answer
from report.folders import write_run

from nmt.evaluation import comet

# its score is the number of equal words, divided by ten
COMET_SCORE = """#!{python}
import argparse, json, sys
parser = argparse.ArgumentParser()
for option in ("-s", "-t", "-r", "--model", "--gpus", "--to_json"):
    parser.add_argument(option, required=True)
parser.add_argument("--only_system", action="store_true")
given = parser.parse_args()
if given.model == "none":
    sys.exit("no such model")
source, translation, reference = (open(path).read().splitlines() for path in (given.s, given.t, given.r))
rows = [
    {{"src": s, "mt": t, "ref": r, "COMET": len(set(t.split()) & set(r.split())) / 10}}
    for s, t, r in zip(source, translation, reference, strict=True)
]
if given.model == "short":
    del rows[0]
json.dump({{given.t: rows}}, open(given.to_json, "w"))
print(given.t, "score: see", given.to_json)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "comet-score"
    path.write_text(COMET_SCORE.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


def read_scores(run, test="test"):
    return json.loads((run / test / "scores.json").read_text())


def equal_words(run):
    lines = map(json.loads, (run / "test" / "sentences.jsonl").read_text().splitlines())
    return [len(set(line["hypothesis"].split()) & set(line["reference"].split())) for line in lines]


def test_score_of_the_program_is_added(run, program, capfd, monkeypatch):
    before = read_scores(run)
    assert answer("evaluate", str(run), f"comet={program}", capture=capfd, monkeypatch=monkeypatch) == (0, "")
    after = read_scores(run)
    score = after["scores"].pop("comet")
    counts = equal_words(run)
    assert score["score"] == pytest.approx(10 * sum(counts) / len(counts))
    assert score["signature"] == "model:Unbabel/wmt22-comet-da"
    assert after == before


def test_several_runs_are_scored_in_turn(run, program, tmp_path, capfd, monkeypatch):
    second = write_run(tmp_path / "second", seed=2, mistakes=0.6)
    arguments = [str(run), str(second), f"comet={program}", "comet_model=other", "as_json=true"]
    assert answer("evaluate", *arguments, capture=capfd, monkeypatch=monkeypatch) == (0, "")
    assert [read_scores(one)["scores"]["comet"]["signature"] for one in (run, second)] == ["model:other"] * 2
    compared = [str(run), str(second), f"output={tmp_path / 'compare.html'}", "resamples=10"]
    assert answer("compare", *compared, capture=capfd, monkeypatch=monkeypatch)[0] == 0
    assert "| COMET |" in (tmp_path / "compare.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comet=no/such"], "comet=no/such: no such program. Fix: python -m venv comet"),
        (["comet_model=other"], "comet_model=other: needs comet= too"),
        (["comet={program}", "comet_model=none"], "ended with status 1. Fix: see its lines above"),
        (["comet={program}", "comet_model=short"], "did not write a score for each sentence"),
    ],
)
def test_failure_is_one_line_and_leaves_the_scores(arguments, message, run, program, capfd, monkeypatch):
    before = read_scores(run)
    arguments = [argument.format(program=program) for argument in arguments]
    status, error = answer("evaluate", str(run), *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, message in error) == (1, True)
    assert read_scores(run) == before


def test_run_without_an_evaluation_is_an_error(program, tmp_path, capfd, monkeypatch):
    folder = tmp_path / "new"
    folder.mkdir()
    status, error = answer("evaluate", str(folder), f"comet={program}", capture=capfd, monkeypatch=monkeypatch)
    assert (status, "has no evaluation. Fix: evaluate it first" in error) == (1, True)


def test_score_is_kept_only_with_the_same_translations(run, program, capfd, monkeypatch):
    answer("evaluate", str(run), f"comet={program}", capture=capfd, monkeypatch=monkeypatch)
    lines = [json.loads(line) for line in (run / "test" / "sentences.jsonl").read_text().splitlines()]
    test = SimpleNamespace(pairs=[SimpleNamespace(source=one["source"], target=one["reference"]) for one in lines])
    texts = [one["hypothesis"] for one in lines]
    assert comet.keep_comet(run / "test", test, texts) == {"comet": read_scores(run)["scores"]["comet"]}
    assert comet.keep_comet(run / "test", test, [*texts[:-1], "another"]) == {}
    assert comet.keep_comet(run / os.devnull, test, texts) == {}
