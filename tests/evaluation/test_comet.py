"""COMET of stored evaluations, by a program that takes the options of comet-score and writes its JSON."""

import json
import os
import shutil
import stat
import sys
from types import SimpleNamespace

import pytest
from commands import answer
from omegaconf import OmegaConf
from report.folders import write_run

from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation import comet, result_files
from nmt.evaluation.comet import add_comet, keep_comet

# its score is the number of equal words, divided by ten; it writes its options beside itself
COMET_SCORE = """#!{python}
import argparse, json, sys
parser = argparse.ArgumentParser()
for option in ("-s", "-t", "-r", "--model", "--gpus", "--to_json"):
    parser.add_argument(option, required=True)
parser.add_argument("--only_system", action="store_true")
given = parser.parse_args()
json.dump(vars(given), open(__file__ + ".json", "w"))
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


def settings_of(run, program, **others):
    return OmegaConf.merge(load_defaults("evaluate"), {"run": str(run), "comet": str(program)} | others)


def read_scores(run, test="test"):
    return json.loads((run / test / "scores.json").read_text())


def read_sentences(run):
    return list(map(json.loads, (run / "test" / "sentences.jsonl").read_text().splitlines()))


def expected_score(run):
    counts = [len(set(one["hypothesis"].split()) & set(one["reference"].split())) for one in read_sentences(run)]
    return 10 * sum(counts) / len(counts)


def test_score_of_the_program_is_added(run, program):
    before = read_scores(run)
    [(folder, score)] = add_comet(settings_of(run, program, device="cpu"))
    after = read_scores(run)
    added = after["scores"].pop("comet")
    assert folder == run / "test"
    assert added["score"] == score.score == pytest.approx(expected_score(run))
    assert added["signature"] == "model:Unbabel/wmt22-comet-da"
    assert after == before
    options = json.loads(program.with_name("comet-score.json").read_text())
    assert (options["gpus"], options["only_system"]) == ("0", True)


def test_several_runs_are_scored_in_turn_and_compared(run, program, tmp_path, capfd, monkeypatch):
    second = write_run(tmp_path / "second", seed=2, mistakes=0.6)
    third = write_run(tmp_path / "third", seed=3, changes={"dropout": 0.5})
    list(add_comet(settings_of(third, program, comet_model="another")))
    monkeypatch.setattr(sys, "argv", ["evaluate.py", str(run), str(second), f"comet={program}", "as_json=true"])
    from nmt.cli.evaluate import main

    main()
    printed = [json.loads(line)["comet"]["score"] for line in capfd.readouterr().out.splitlines()]
    assert printed == pytest.approx([expected_score(run), expected_score(second)])
    compared = [str(run), str(second), str(third), f"output={tmp_path / 'compare.html'}", "resamples=10"]
    assert answer("compare", *compared, capture=capfd, monkeypatch=monkeypatch)[0] == 0
    tables = (tmp_path / "compare.md").read_text()
    assert "| COMET |" in tables
    assert "its COMET is by model:another, that of" in tables


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comet=no/such"], "comet=no/such: no such program. Fix: python -m venv comet"),
        (["comet_model=other"], "comet_model=other: needs comet= too"),
        (["comet={program}", "device=cuda:1"], "device=cuda:1: comet= takes cpu, cuda, auto"),
        (["comet={program}", "output=elsewhere"], "output=elsewhere: has no effect with comet="),
        (["comet={program}", "comet_model=short"], "did not write a score for each sentence"),
    ],
)
def test_failure_is_one_line_and_leaves_the_scores(arguments, message, run, program, capfd, monkeypatch):
    before = read_scores(run)
    arguments = [argument.format(program=program) for argument in arguments]
    status, error = answer("evaluate", str(run), *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, message in error, error.count("\n")) == (1, True, 1)
    assert read_scores(run) == before


def test_lines_of_a_failing_program_are_shown(run, program, capfd, monkeypatch):
    arguments = [str(run), f"comet={program}", "comet_model=none"]
    status, error = answer("evaluate", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, error.splitlines()[0]) == (1, "no such model")
    assert error.endswith("ended with status 1. Fix: see its lines above\n")


def test_program_of_a_moved_environment_is_an_error(run, program):
    program.write_text("#!/no/such/python\n")
    with pytest.raises(
        ConfigurationError, match=r"cannot be started \(No such file or directory\). Fix: python -m venv"
    ):
        list(add_comet(settings_of(run, program)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "has no evaluation. Fix: evaluate it first"),
        ("rnu", r"no such folder or checkpoint \(did you mean .*run\?\)"),
        ("hf:owner/name", "outputs/hub/owner/name: has no evaluation"),
    ],
)
def test_run_without_an_evaluation_is_an_error(name, message, run, program, tmp_path):
    (tmp_path / "empty").mkdir()
    given = name if name.startswith("hf:") else tmp_path / name
    with pytest.raises((ConfigurationError, DataError), match=message):
        list(add_comet(settings_of(given, program)))


def test_checkpoint_names_its_run(run, program):
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "best.ckpt").touch()
    [(folder, _)] = add_comet(settings_of(run / "checkpoints" / "best.ckpt", program))
    assert folder == run / "test"


def test_damaged_evaluation_is_an_error_after_the_others_are_scored(run, program):
    shutil.copytree(run / "test", run / "another")
    (run / "another" / "scores.json").write_text("{")
    scored = []
    with pytest.raises(DataError, match=r"another/scores.json is not JSON"):
        scored.extend(folder.name for folder, _ in add_comet(settings_of(run, program)))
    assert "comet" in read_scores(run)["scores"]


def test_linked_evaluation_is_refused_before_anything_is_written(run, program, tmp_path):
    other = write_run(tmp_path / "other")
    shutil.rmtree(run / "test")
    (run / "test").symlink_to(other / "test")
    before = sorted(os.listdir(other / "test"))
    with pytest.raises(DataError, match="is a link out of its folder"):
        list(add_comet(settings_of(run, program)))
    assert sorted(os.listdir(other / "test")) == before


def test_scores_that_changed_meanwhile_are_left(run, program, monkeypatch):
    def score_and_evaluate_again(command, sentences):
        (run / "test" / "scores.json").write_text(json.dumps(read_scores(run) | {"search": {"beam": 7}}))
        return [0.5] * len(sentences)

    monkeypatch.setattr(comet, "_score_sentences", score_and_evaluate_again)
    with pytest.raises(DataError, match="evaluated again meanwhile"):
        list(add_comet(settings_of(run, program)))
    assert read_scores(run)["search"] == {"beam": 7}
    assert "comet" not in read_scores(run)["scores"]


def test_each_sentence_is_a_line_for_the_program(run, program):
    lines = read_sentences(run)
    lines[0] |= {"hypothesis": ""}
    lines[1] |= {"source": "one\u2028two\rthree\tfour", "further_references": []}
    (run / "test" / "sentences.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [(_, score)] = add_comet(settings_of(run, program))
    assert score.score == pytest.approx(expected_score(run))


def test_score_is_kept_only_with_the_same_translations(run, program):
    list(add_comet(settings_of(run, program)))
    lines = read_sentences(run)
    test = SimpleNamespace(pairs=[SimpleNamespace(source=one["source"], target=one["reference"]) for one in lines])
    texts = [one["hypothesis"] for one in lines]
    assert keep_comet(run / "test", test, texts) == {"comet": read_scores(run)["scores"]["comet"]}
    assert keep_comet(run / "test", test, [*texts[:-1], "another"]) == {}
    assert keep_comet(run / "other", test, texts) == {}


def test_evaluation_keeps_the_score_where_it_writes_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(result_files, "keep_comet", lambda folder, test, texts: {"comet": {"score": 70.0}})
    test, translated = SimpleNamespace(pairs=[], references=[[]]), SimpleNamespace(translations=[], texts=[])
    scores = {"scores": {"bleu": {"score": 30.0}}}
    result_files.write_results(tmp_path / "test", test, translated, None, scores)
    assert read_scores(tmp_path)["scores"] == scores["scores"] == {"bleu": {"score": 30.0}, "comet": {"score": 70.0}}
