"""Kept runs: restored, they are compared as before."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from compositions import configured
from omegaconf import OmegaConf
from report.folders import pairs, write_run

import studies.__main__ as command
from nmt.cli.compare import compare
from nmt.config.schema import load_defaults
from nmt.errors import UserError
from nmt.report.load.evaluated_runs import load_evaluation
from nmt.report.load.run_folder import find_runs
from nmt.runs.job import Job
from nmt.runs.resume import CompletedAlreadyError, find_earlier_training
from nmt.runs.scoring import Scoring
from nmt.runs.trained_model import TrainedRun
from nmt.runs.training_folder import put_aside
from nmt.system.safe_files import UnreadableError
from studies import archive
from studies.archive import RUNS, Archive, keep_runs, restore_runs

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


ARCHIVE = Path("study.tar.xz")


def keep(*folders: Path, tests: list[str] = TESTS) -> list[str]:
    archive = Archive(ARCHIVE)
    messages = keep_runs(find_runs([str(folder) for folder in folders]), tests, archive)
    archive.write()
    return messages


def restore(folder: Path) -> dict[Path, str]:
    return restore_runs(str(folder), Archive(ARCHIVE))


def content(folder: Path) -> dict:
    return Archive(ARCHIVE).entries[f"{RUNS}{folder}"]


def test_restored_runs_are_compared_as_before(sweep):
    before = [compared(test) for test in TESTS]
    assert [row["scores"]["bleu"]["mean"] for row in before[0]["systems"]] == pytest.approx([100, 80], abs=15)
    (message,) = keep(sweep)
    assert message.startswith(
        f"{sweep / 'c'}: is not kept (not evaluated on news; it was on test: python evaluate.py run="
    )
    shutil.rmtree(sweep)
    assert restore(sweep) == {sweep / "a": "", sweep / "b": ""}
    assert [compared(test) for test in TESTS] == before
    assert not before[0]["notes"]


def test_all_evaluations_of_a_run_on_a_test_set_are_kept_and_restored(sweep):
    """A search other than the run's own has a folder of its own."""
    other = shutil.copytree(sweep / "a" / "test", sweep / "a" / "test,beam=30")
    stored = json.loads((other / "scores.json").read_text())
    (other / "scores.json").write_text(json.dumps(stored | {"search": {"beam": 30}}))
    assert keep(sweep / "a", tests=["test"]) == []
    assert content(sweep / "a")["tests"].keys() == {"test", "test,beam=30"}
    before = compared("test")
    assert len(before["systems"]) == 3
    shutil.rmtree(sweep / "a")
    assert restore(sweep / "a") == {sweep / "a": ""}
    assert compared("test") == before


def test_a_test_set_of_an_evaluation_alone_is_restored(sweep):
    """As in evaluate.py data.test=later data.tests.later.source=…"""
    shutil.copytree(sweep / "a" / "test", sweep / "a" / "later")
    path = sweep / "a" / "later" / "scores.json"
    overrides = [f"data.tests.later.{side}={file}" for side, file in FILES.items()]
    stored = json.loads(path.read_text()) | {"data_overrides": overrides}
    path.write_text(json.dumps(stored))
    assert keep(sweep / "a", tests=["later"]) == []
    shutil.rmtree(sweep)
    restore(sweep)
    [run] = find_runs([str(sweep / "a")])
    assert load_evaluation(run, "later").references == [[reference for _, reference in LINES]]
    stored["data_overrides"] = [f"data.tests.later.{side}={Path(file).absolute()}" for side, file in FILES.items()]
    path.write_text(json.dumps(stored))
    (message,) = keep(sweep / "a", tests=["later"])
    assert "is a place on this machine. Fix: evaluate it with a path from here" in message


def test_existing_runs_are_left_alone_and_one_run_can_be_restored(sweep):
    keep(sweep)
    assert restore(sweep) == {}
    shutil.rmtree(sweep / "a")
    (sweep / "b" / "summary.json").write_text('{"status": "running"}')
    assert restore(f"{sweep}/a/") == {sweep / "a": ""}
    reason = "another run was started there. Fix: move it away"
    assert restore(sweep) == {sweep / "b": reason}
    assert (sweep / "b" / "summary.json").read_text() == '{"status": "running"}'


def test_where_missing_texts_come_from_is_said_if_a_run_is_not_restored(sweep, monkeypatch, capsys):
    keep(sweep / "a")
    shutil.rmtree(sweep / "a")
    texts = Path(FILES["source"]).rename("elsewhere")
    monkeypatch.setattr(command, "RESULTS", ARCHIVE.parent)
    studies = {"study": {"runs": [str(sweep)]}}
    command.restore("study", studies)
    *_, reason, hint = capsys.readouterr().out.splitlines()
    assert "multirun/kinds/a: not restored: " in reason
    assert "text.zh" in reason
    assert hint == "docs/results/study.md has the commands that make missing files"
    texts.rename(FILES["source"])
    command.restore("study", studies)
    assert capsys.readouterr().out == "multirun/kinds/a: restored, without checkpoints\n"


def test_a_sweep_skips_restored_runs(sweep):
    keep(sweep)
    shutil.rmtree(sweep)
    restore(sweep)
    jobs = {name: Job((), sweep / name, scored=Scoring("news", "keep")).is_completed for name in "abcd"}
    assert jobs == {"a": True, "b": True, "c": False, "d": False}


def test_scores_on_one_test_set_stay_when_another_is_kept(sweep):
    keep(sweep / "a", tests=["test"])
    before = content(sweep / "a")
    assert keep(sweep / "a", tests=["news"]) == []
    assert content(sweep / "a")["tests"].keys() == {"test", "news"}
    assert content(sweep / "a")["tests"]["test"] == before["tests"]["test"]


def test_a_new_run_replaces_the_kept_one_with_a_message(sweep):
    keep(sweep / "a")
    write_summary(sweep / "a", started="later")
    (message,) = keep(sweep / "a", tests=["test"])
    assert message == f"{sweep}/a: the run started later replaces the one started None"
    assert content(sweep / "a")["tests"].keys() == {"test"}


def test_scores_of_other_weights_are_not_kept(sweep):
    stored = json.loads((sweep / "a" / "test" / "scores.json").read_text())
    stored["members"] = [{"run": str(sweep / "a"), "checkpoint": "best.ckpt", "step": 300}]
    (sweep / "a" / "test" / "scores.json").write_text(json.dumps(stored))
    write_summary(sweep / "a", best={"checkpoint": "checkpoints/best.ckpt", "step": 400})
    (message,) = keep(sweep / "a")
    assert "a: is not kept (evaluated at step 300, trained further since; evaluate it again)" in message


def test_texts_of_test_sets_and_absolute_paths_are_not_kept(sweep):
    write_summary(sweep / "b", initialized_from={"run": str(Path("other").absolute()), "at": "/somewhere/else"})
    keep(sweep / "b")
    text = json.dumps(content(sweep / "b"))
    sentence = json.loads((sweep / "b" / "test" / "sentences.jsonl").read_text().splitlines()[0])
    assert sentence["hypothesis"] in text
    assert not [source for source, _ in LINES if f'"{source}"' in text]
    assert content(sweep / "b")["summary"]["initialized_from"] == {"run": "other", "at": "else"}
    assert str(Path.cwd()) not in text


def test_a_folder_of_any_name_is_kept_and_restored(sweep):
    sweep = sweep.rename(sweep.with_name("kinds: 50%"))
    folder = (sweep / "a").rename(sweep / 'fresh=[a.*],x={y:["z=1%20"]}')
    assert keep(folder) == []
    shutil.rmtree(folder)
    assert restore(sweep) == {folder: ""}
    assert (folder / "test" / "scores.json").is_file()


def test_an_ensemble_takes_its_texts_from_its_first_member(sweep):
    ensemble = Path("multirun", "both")
    shutil.copytree(sweep / "a" / "test", ensemble / "test")
    stored = json.loads((ensemble / "test" / "scores.json").read_text())
    stored["members"] = [{"run": str(sweep / name), "checkpoint": "best.ckpt", "step": 1} for name in "ab"]
    (ensemble / "test" / "scores.json").write_text(json.dumps(stored))
    assert keep(ensemble, tests=["test"]) == []
    shutil.rmtree("multirun")
    assert restore(ensemble) == {ensemble: ""}
    [run] = find_runs([str(ensemble)])
    assert run.trained is None
    assert load_evaluation(run, "test").references == [[reference for _, reference in LINES]]
    before = content(ensemble)
    assert keep(ensemble, tests=["test"]) == []  # its members are not there
    assert content(ensemble) == before


def test_other_data_is_refused(sweep):
    keep(sweep)
    text = Path("text.en").read_text()
    Path("text.en").write_text(text.replace("ma", "mo"))
    reason = "test: the data hold other texts than those it was scored on. Fix: check data.dir"
    assert keep(sweep / "a") == [f"{sweep / 'a'}: is not kept ({reason})"]  # because it could not be restored
    shutil.rmtree(sweep)
    assert restore(sweep) == {sweep / "a": reason, sweep / "b": reason}
    assert not list(sweep.parent.rglob("*.json"))
    Path("text.en").write_text(text)
    assert restore(sweep) == {sweep / "a": "", sweep / "b": ""}


def test_missing_data_give_the_hint_where_to_get_them(sweep):
    path = sweep / "a" / ".hydra" / "config.yaml"
    config = OmegaConf.load(path)
    config.data.dir, config.data.missing = ".", "ask the library for it"
    OmegaConf.save(config, path)
    keep(sweep / "a")
    shutil.rmtree(sweep)
    Path("text.zh").unlink()
    results = restore(sweep)
    assert results == {sweep / "a": "text.zh: no such file (ask the library for it)"}


DAMAGES = {"empty": b"", "no archive": b"no archive", "truncated": None}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_archive_is_named(sweep, damage):
    keep(sweep)
    ARCHIVE.write_bytes(ARCHIVE.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(UnreadableError, match=r"study\.tar\.xz is damaged \(.*take it from git again"):
        Archive(ARCHIVE)


def test_an_entry_that_is_no_run_costs_no_other_run(sweep):
    keep(sweep)
    archive = Archive(ARCHIVE)
    archive.entries[f"{RUNS}{sweep}/a"] = {}
    archive.write()
    shutil.rmtree(sweep)
    assert restore(sweep) == {sweep / "a": "what is kept is not a run", sweep / "b": ""}


@pytest.mark.parametrize("test", TESTS)
def test_the_file_holds_the_translations_of_a_sentence_side_by_side(sweep, test):
    keep(sweep / "a")
    keep(sweep / "b")
    runs = [f"{RUNS}{sweep}/a", f"{RUNS}{sweep}/b"]
    kept = [Archive(ARCHIVE).entries[run]["tests"][test]["hypotheses"] for run in runs]
    with tarfile.open(ARCHIVE) as tar:
        lines = json.load(tar.extractfile(f"lines/hypotheses/{test}/30"))
        alone = json.load(tar.extractfile(runs[0]))
    assert lines == {"runs": runs, "rows": [list(row) for row in zip(*kept, strict=True)]}
    assert alone["tests"][test]["hypotheses"] is None


def test_equal_entries_make_equal_files(sweep):
    keep(sweep / "b")
    keep(sweep / "a")
    in_turn = ARCHIVE.read_bytes()
    ARCHIVE.unlink()
    keep(sweep / "a", sweep / "b")
    assert ARCHIVE.read_bytes() == in_turn
    keep(sweep)
    before = ARCHIVE.read_bytes()
    Archive(ARCHIVE).write()
    assert ARCHIVE.read_bytes() == before


def test_a_run_without_its_settings_is_not_kept(sweep):
    (sweep / "a" / ".hydra" / "config.yaml").unlink()
    (message,) = keep(sweep / "a")
    assert "a: is not kept (" in message


def test_training_in_a_restored_run_is_refused_as_completed(sweep):
    keep(sweep)
    shutil.rmtree(sweep)
    restore(sweep)
    config = OmegaConf.load(sweep / "b" / ".hydra" / "config.yaml")
    with pytest.raises(CompletedAlreadyError):
        find_earlier_training(config, sweep / "b")
    config.dropout = 0.9
    with pytest.raises(UserError, match=r"b: holds a run with other settings \(dropout 0.1 → 0.9\)"):
        find_earlier_training(config, sweep / "b")
    config.resume = True
    with pytest.raises(UserError, match="b: holds a completed run without its checkpoints"):
        find_earlier_training(config, sweep / "b")
    with pytest.raises(UserError, match="b: is completed, but has no checkpoints"):
        TrainedRun(str(sweep / "b"))
    config.resume = False
    assert find_earlier_training(config, sweep / "b").starts_again
    put_aside(sweep / "b")
    assert (sweep / "b" / "earlier.1" / "summary.json").is_file()


def write_summary(folder: Path, **changes) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_sums_of_weights_are_kept_with_three_decimals_and_counts_as_they_are():
    assert archive._round_counts("13 11 1 1 11.9948 11 1.00233 0.999999") == "13 11 1 1 11.995 11 1.002 1"
