"""Runs in small: put back where they are not, they are compared as before."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from compositions import configured
from omegaconf import OmegaConf
from report.folders import pairs, write_run

from nmt.command import defaults_of
from nmt.errors import UserError
from nmt.launch.job import Job
from nmt.report.compare import compare
from nmt.report.kept import keep_runs, put_back
from nmt.report.runs import find_runs

LINES = pairs(30)
TESTS = ["test", "news"]
FILES = {"source": "text.zh", "target": "text.en"}


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Path:
    """a and b were evaluated on both test sets, c on one, and d is interrupted; the texts lie in files."""
    monkeypatch.chdir(tmp_path)
    for name, text in zip(FILES.values(), zip(*LINES, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in text))
    config = configured("data=text")
    config.data.train = config.data.valid = FILES
    OmegaConf.update(config, "data.tests", dict.fromkeys(TESTS, FILES), force_add=True)
    sweep = Path("multirun", "kinds")
    for number, name in enumerate("abcd"):
        summary = {"status": "interrupted" if name == "d" else "completed"}
        write_run(sweep / name, seed=number, mistakes=0.1 * number, lines=LINES, summary=summary)
        if name != "c":
            write_run(sweep / name, seed=number, mistakes=0.2, lines=LINES, test="news", summary=summary)
        config.seed, config.dropout = number, 0.1 * number
        OmegaConf.save(config, sweep / name / ".hydra" / "config.yaml")
    return sweep


def compared(test: str) -> dict:
    settings = OmegaConf.merge(defaults_of("compare"), {"output": f"{test}.html", "test": test})
    compare(["multirun/kinds/a", "multirun/kinds/b"], settings)
    return json.loads(Path(f"{test}.json").read_text())


def test_what_is_put_back_is_compared_as_it_was(sweep):
    before = [compared(test) for test in TESTS]
    assert [row["scores"]["bleu"]["mean"] for row in before[0]["systems"]] == pytest.approx([100, 80], abs=15)
    keep_runs(find_runs([str(sweep)]), TESTS, Path("kept"))
    shutil.rmtree(sweep)
    assert put_back([str(sweep)], Path("kept")) == [sweep / "a", sweep / "b"]
    assert [compared(test) for test in TESTS] == before
    assert not before[0]["notes"]


def test_a_run_that_is_there_is_left_alone_and_one_alone_can_be_asked_for(sweep):
    keep_runs(find_runs([str(sweep)]), TESTS, Path("kept"))
    assert put_back([str(sweep)], Path("kept")) == []
    shutil.rmtree(sweep / "a")
    (sweep / "b" / "summary.json").write_text("{}")
    assert put_back([str(sweep / "a")], Path("kept")) == [sweep / "a"]
    assert (sweep / "b" / "summary.json").read_text() == "{}"


def test_a_sweep_takes_it_for_completed(sweep):
    keep_runs(find_runs([str(sweep)]), TESTS, Path("kept"))
    shutil.rmtree(sweep)
    put_back([str(sweep)], Path("kept"))
    jobs = {name: Job((), sweep / name, sweep / name / "news" / "scores.json").is_completed for name in "abcd"}
    assert jobs == {"a": True, "b": True, "c": False, "d": False}


def test_texts_of_test_sets_are_not_kept(sweep):
    keep_runs(find_runs([str(sweep)]), TESTS, Path("kept"))
    kept = gzip.decompress((Path("kept") / sweep / "b.json.gz").read_bytes()).decode()
    said = json.loads((sweep / "b" / "test" / "sentences.jsonl").read_text().splitlines()[0])
    assert said["hypothesis"] in kept
    assert not [source for source, _ in LINES if f'"{source}"' in kept]


def test_an_ensemble_finds_its_texts_by_its_first_member(sweep):
    ensemble = Path("multirun", "both")
    shutil.copytree(sweep / "a" / "test", ensemble / "test")
    stored = json.loads((ensemble / "test" / "scores.json").read_text())
    stored["members"] = [{"run": str(sweep / name), "checkpoint": "best.ckpt", "step": 1} for name in "ab"]
    (ensemble / "test" / "scores.json").write_text(json.dumps(stored))
    keep_runs(find_runs([str(ensemble)]), ["test"], Path("kept"))
    shutil.rmtree("multirun")
    assert put_back([str(ensemble)], Path("kept")) == [ensemble]
    [run] = find_runs([str(ensemble)])
    assert run.is_ensemble
    assert run.on("test").references == [[reference for _, reference in LINES]]


def test_other_data_is_refused(sweep):
    keep_runs(find_runs([str(sweep)]), TESTS, Path("kept"))
    shutil.rmtree(sweep)
    text = Path("text.en").read_text()
    Path("text.en").write_text(text.replace("ma", "mo"))
    with pytest.raises(UserError, match="test of a: was scored on other texts than data has now"):
        put_back([str(sweep)], Path("kept"))
    assert not (sweep / "a" / "summary.json").exists()
    Path("text.en").write_text(text)
    assert put_back([str(sweep)], Path("kept")) == [sweep / "a", sweep / "b"]
