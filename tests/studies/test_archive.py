"""Runs in small: put back where they are not, they are compared as before."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from compositions import configured
from omegaconf import OmegaConf
from report.folders import pairs, write_run

from nmt.cli.compare import compare
from nmt.config.schema import load_defaults
from nmt.errors import UserError
from nmt.report.load.run_folder import find_runs
from nmt.runs.job import Job
from nmt.runs.trained_model import TrainedRun
from nmt.training.resume import CompletedAlreadyError, put_aside, find_earlier_training
from studies.archive import keep_runs, put_back

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
    settings = OmegaConf.merge(load_defaults("compare"), {"output": f"{test}.html", "test": test})
    compare(["multirun/kinds/a", "multirun/kinds/b"], settings)
    return json.loads(Path(f"{test}.json").read_text())


def kept(*folders: Path, tests: list[str] = TESTS) -> list[str]:
    return list(keep_runs(find_runs([str(folder) for folder in folders]), tests, Path("kept")))


def content(folder: Path) -> dict:
    return json.loads(gzip.decompress(Path("kept", f"{folder}.json.gz").read_bytes()))


def test_what_is_put_back_is_compared_as_it_was(sweep):
    before = [compared(test) for test in TESTS]
    assert [row["scores"]["bleu"]["mean"] for row in before[0]["systems"]] == pytest.approx([100, 80], abs=15)
    (said,) = kept(sweep)
    assert said.startswith(
        f"{sweep / 'c'}: is not kept (not evaluated on news; it was on test: python evaluate.py run="
    )
    shutil.rmtree(sweep)
    assert put_back([str(sweep)], Path("kept")) == {sweep / "a": "", sweep / "b": ""}
    assert [compared(test) for test in TESTS] == before
    assert not before[0]["notes"]


def test_a_test_set_named_for_evaluation_alone_is_found_again(sweep):
    """As in evaluate.py data.test=later data.tests.later.source=…"""
    shutil.copytree(sweep / "a" / "test", sweep / "a" / "later")
    path = sweep / "a" / "later" / "scores.json"
    told = [f"data.tests.later.{side}={file}" for side, file in FILES.items()]
    stored = json.loads(path.read_text()) | {"data_overrides": told}
    path.write_text(json.dumps(stored))
    assert kept(sweep / "a", tests=["later"]) == []
    shutil.rmtree(sweep)
    put_back([str(sweep)], Path("kept"))
    [run] = find_runs([str(sweep / "a")])
    assert run.on("later").references == [[reference for _, reference in LINES]]
    stored["data_overrides"] = [f"data.tests.later.{side}={Path(file).absolute()}" for side, file in FILES.items()]
    path.write_text(json.dumps(stored))
    (said,) = kept(sweep / "a", tests=["later"])
    assert "is a place on this machine: evaluate it with a path from here" in said


def test_a_run_that_is_there_is_left_alone_and_one_alone_can_be_asked_for(sweep):
    kept(sweep)
    assert put_back([str(sweep)], Path("kept")) == {}
    shutil.rmtree(sweep / "a")
    (sweep / "b" / "summary.json").write_text('{"status": "running"}')
    assert put_back([f"{sweep}/a/"], Path("kept")) == {sweep / "a": ""}
    said = "another run was begun there; move it away to have the kept one"
    assert put_back([str(sweep)], Path("kept")) == {sweep / "b": said}
    assert (sweep / "b" / "summary.json").read_text() == '{"status": "running"}'


def test_a_sweep_takes_it_for_completed(sweep):
    kept(sweep)
    shutil.rmtree(sweep)
    put_back([str(sweep)], Path("kept"))
    jobs = {name: Job((), sweep / name, scored=("news", "keep")).is_completed for name in "abcd"}
    assert jobs == {"a": True, "b": True, "c": False, "d": False}


def test_what_was_kept_on_one_test_set_stays_when_the_run_is_kept_on_another(sweep):
    kept(sweep / "a", tests=["test"])
    before = content(sweep / "a")
    assert kept(sweep / "a", tests=["news"]) == []
    assert content(sweep / "a")["tests"].keys() == {"test", "news"}
    assert content(sweep / "a")["tests"]["test"] == before["tests"]["test"]


def test_a_run_begun_anew_takes_the_place_of_the_kept_one_and_says_so(sweep):
    kept(sweep / "a")
    write_summary(sweep / "a", started="later")
    (said,) = kept(sweep / "a", tests=["test"])
    assert said == f"kept/{sweep}/a.json.gz: was of a run begun None; now it is of the one begun later"
    assert content(sweep / "a")["tests"].keys() == {"test"}


def test_scores_of_other_weights_are_not_kept(sweep):
    stored = json.loads((sweep / "a" / "test" / "scores.json").read_text())
    stored["members"] = [{"run": str(sweep / "a"), "checkpoint": "best.ckpt", "step": 300}]
    (sweep / "a" / "test" / "scores.json").write_text(json.dumps(stored))
    write_summary(sweep / "a", best={"checkpoint": "checkpoints/best.ckpt", "step": 400})
    (said,) = kept(sweep / "a")
    assert "a: is not kept (evaluated at step 300, trained further since; evaluate it again)" in said


def test_texts_of_test_sets_and_places_on_a_machine_are_not_kept(sweep):
    write_summary(sweep / "b", initialized_from={"run": str(Path("other").absolute()), "at": "/somewhere/else"})
    kept(sweep / "b")
    text = json.dumps(content(sweep / "b"))
    said = json.loads((sweep / "b" / "test" / "sentences.jsonl").read_text().splitlines()[0])
    assert said["hypothesis"] in text
    assert not [source for source, _ in LINES if f'"{source}"' in text]
    assert content(sweep / "b")["summary"]["initialized_from"] == {"run": "other", "at": "else"}
    assert str(Path.cwd()) not in text


def test_a_folder_that_not_every_file_system_can_name_is_kept_and_put_back(sweep):
    sweep = sweep.rename(sweep.with_name("kinds: 50%"))
    folder = (sweep / "a").rename(sweep / 'fresh=[a.*],x={y:["z=1%20"]}')
    assert kept(folder) == []
    [path] = Path("kept").rglob("*.gz")
    assert not set(str(path)) & set('"*<>?|:')
    shutil.rmtree(folder)
    assert put_back([str(sweep)], Path("kept")) == {folder: ""}
    assert (folder / "test" / "scores.json").is_file()


def test_an_ensemble_finds_its_texts_by_its_first_member(sweep):
    ensemble = Path("multirun", "both")
    shutil.copytree(sweep / "a" / "test", ensemble / "test")
    stored = json.loads((ensemble / "test" / "scores.json").read_text())
    stored["members"] = [{"run": str(sweep / name), "checkpoint": "best.ckpt", "step": 1} for name in "ab"]
    (ensemble / "test" / "scores.json").write_text(json.dumps(stored))
    assert kept(ensemble, tests=["test"]) == []
    shutil.rmtree("multirun")
    assert put_back([str(ensemble)], Path("kept")) == {ensemble: ""}
    [run] = find_runs([str(ensemble)])
    assert run.trained is None
    assert run.on("test").references == [[reference for _, reference in LINES]]
    before = content(ensemble)
    assert kept(ensemble, tests=["test"]) == []  # its members are not there
    assert content(ensemble) == before


def test_other_data_is_refused(sweep):
    kept(sweep)
    text = Path("text.en").read_text()
    Path("text.en").write_text(text.replace("ma", "mo"))
    said = "test: the data now have other texts than it was scored on; is data.dir the same data?"
    assert kept(sweep / "a") == [f"{sweep / 'a'}: is not kept ({said})"]  # nobody could put it back
    shutil.rmtree(sweep)
    assert put_back([str(sweep)], Path("kept")) == {sweep / "a": said, sweep / "b": said}
    assert not list(sweep.parent.rglob("*.json"))
    Path("text.en").write_text(text)
    assert put_back([str(sweep)], Path("kept")) == {sweep / "a": "", sweep / "b": ""}


def test_where_the_data_is_not_there_it_is_said_where_to_get_it(sweep):
    path = sweep / "a" / ".hydra" / "config.yaml"
    config = OmegaConf.load(path)
    config.data.dir, config.data.missing = ".", "ask the library for it"
    OmegaConf.save(config, path)
    kept(sweep / "a")
    shutil.rmtree(sweep)
    Path("text.zh").unlink()
    found = put_back([str(sweep)], Path("kept"))
    assert found == {sweep / "a": "text.zh: no such file (ask the library for it)"}


DAMAGES = {
    "empty": b"",
    "no archive": b"no archive",
    "another's JSON": gzip.compress(b"{}"),
    "half a JSON": gzip.compress(b"[1"),
    "cut off": None,
}


# Named: bytes of gzip hold the second they were made in, and two workers would collect different tests.
@pytest.mark.parametrize("damaged", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_named_and_costs_nothing_else(sweep, damaged):
    kept(sweep)
    path = Path("kept", f"{sweep}/a.json.gz")
    path.write_bytes(path.read_bytes()[:-20] if damaged is None else damaged)
    shutil.rmtree(sweep)
    found = put_back([str(sweep)], Path("kept"))
    assert found[sweep / "b"] == ""
    assert f"{path} is damaged (" in found[sweep / "a"]
    assert "take it from git again" in found[sweep / "a"]


def test_a_run_without_its_settings_is_named(sweep):
    (sweep / "a" / ".hydra" / "config.yaml").unlink()
    (said,) = kept(sweep / "a")
    assert "a: is not kept (" in said


def test_a_training_there_knows_that_it_is_completed(sweep):
    kept(sweep)
    shutil.rmtree(sweep)
    put_back([str(sweep)], Path("kept"))
    config = OmegaConf.load(sweep / "b" / ".hydra" / "config.yaml")
    with pytest.raises(CompletedAlreadyError):
        find_earlier_training(config, sweep / "b")
    config.dropout = 0.9
    with pytest.raises(UserError, match=r"b holds a run with other settings \(dropout 0.1 → 0.9\)"):
        find_earlier_training(config, sweep / "b")
    config.resume = True
    with pytest.raises(UserError, match="b holds a completed run whose checkpoints are not there"):
        find_earlier_training(config, sweep / "b")
    with pytest.raises(UserError, match="b: is completed, but its checkpoints are not there"):
        TrainedRun(str(sweep / "b"))
    config.resume = False
    assert find_earlier_training(config, sweep / "b").anew
    put_aside(sweep / "b")
    assert (sweep / "b" / "earlier.1" / "summary.json").is_file()


def write_summary(folder: Path, **changes) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
