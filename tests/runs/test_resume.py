"""A command in a folder that holds a run already: resume, start again, or refuse."""

import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from nmt.config.diff import find_changes
from nmt.errors import UserError
from nmt.runs import training_folder
from nmt.runs.checkpoint_file import save_checkpoint
from nmt.runs.code_fingerprint import code_version
from nmt.runs.folder import restore_composition
from nmt.runs.resume import CompletedAlreadyError, EarlierTraining, check_other_data, find_earlier_training
from nmt.runs.training_folder import (
    finish_putting_aside,
    keep_composition,
    lock_run_folder,
    put_aside,
    refuse_working_directory,
)

SETTINGS = {
    "resume": "auto",
    "ckpt_path": None,
    "dropout": 0.1,
    "seed": 1,
    "name": "first",
    "trainer": {"max_epochs": 3},
    "callbacks": {"checkpoint": {"dirpath": "${here:}/checkpoints"}},
}


def configuration(**changes):
    return OmegaConf.merge(SETTINGS, changes)


@pytest.fixture
def folder(tmp_path):
    """A run stopped after seven steps."""
    stored = {
        "nmt": {"config": OmegaConf.to_container(configuration())},
        "global_step": 7,
        "progress": {"seconds": 60.0, "metrics": {"valid/bleu": 12.5}},
    }
    save_checkpoint(stored, tmp_path / "checkpoints" / "last.ckpt")
    write_status(tmp_path, "interrupted")
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    (tmp_path / "checkpoints" / ".hydra").mkdir()
    (tmp_path / "checkpoints" / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    return tmp_path


def write_status(folder, status, **more):
    (folder / "summary.json").write_text(json.dumps({"status": status} | more))


LAST = "checkpoints/last.ckpt"


def test_an_empty_folder_starts_a_run(tmp_path):
    config = configuration()
    assert find_earlier_training(config, tmp_path) == EarlierTraining()
    assert config.ckpt_path is None


def test_a_run_that_goes_on_elsewhere_has_its_own_time(folder, tmp_path_factory):
    config = configuration(ckpt_path=str(folder / LAST), resume=True)
    earlier = find_earlier_training(config, tmp_path_factory.mktemp("elsewhere"))
    assert (earlier.checkpoint, earlier.seconds, earlier.metrics) == (str(folder / LAST), 0.0, {"valid/bleu": 12.5})


def test_a_run_whose_checkpoints_are_a_link_resumes_as_itself(folder, tmp_path_factory):
    """They may lie on another disk."""
    elsewhere = (folder / "checkpoints").rename(tmp_path_factory.mktemp("disk") / "checkpoints")
    (folder / "checkpoints").symlink_to(elsewhere)
    earlier = find_earlier_training(configuration(), folder)
    assert (earlier.seconds, earlier.other_settings_from) == (60.0, None)
    with pytest.raises(UserError, match=r"ckpt_path=.*: resume=false would put it aside"):
        find_earlier_training(configuration(resume=False, ckpt_path=str(folder / LAST)), folder)


def test_a_copy_of_the_composition_is_complete_or_not_there(folder, monkeypatch):
    monkeypatch.setattr(training_folder, "write_checksums", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        keep_composition(folder)
    assert (folder / "checkpoints" / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"  # the former one
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [".hydra", "last.ckpt"]


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_a_run_that_is_not_completed_is_resumed(folder, status):
    write_status(folder, status)
    config = configuration(name="other", trainer={"max_epochs": 9})  # no setting of training; and a higher limit
    earlier = EarlierTraining(str(folder / LAST), seconds=60.0, metrics={"valid/bleu": 12.5})
    assert find_earlier_training(config, folder) == earlier
    assert config.ckpt_path is None  # what was composed stays as it is


def test_the_chosen_test_set_is_no_setting_of_training(folder):
    write_status(folder, "completed", epochs=3)
    with pytest.raises(CompletedAlreadyError):
        find_earlier_training(configuration(data={"test": "long"}), folder)
    with pytest.raises(UserError, match=r"other settings \(data.tests.long.count None → 7\)"):
        find_earlier_training(configuration(data={"test": "long", "tests": {"long": {"count": 7}}}), folder)


def test_other_settings_are_named(folder):
    with pytest.raises(
        UserError, match=r"other settings \(dropout 0\.1 → 0\.3, seed 1 → 2\).*resume=false.*resume=true"
    ):
        find_earlier_training(configuration(dropout=0.3, seed=2), folder)
    config = configuration(dropout=0.3, resume=True)
    assert find_earlier_training(config, folder).checkpoint == str(folder / LAST)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resume": "maybe"}, "resume=maybe: choose auto, true or false"),
        ({"resume": 0}, "resume=0: choose auto, true or false"),
        ({"ckpt_path": "no/where.ckpt"}, "did not resume from ckpt_path=no/where.ckpt"),
        ({"model": {"size": "${oc.env:HOME}"}}, "refused, because a run's settings may refer only to each other"),
    ],
)
def test_a_command_that_does_not_fit_the_run_is_refused(folder, changes, message):
    with pytest.raises(UserError, match=message):
        find_earlier_training(configuration(**changes), folder)


@pytest.mark.parametrize("damage", ["", "- seed", "\0" * 9])
def test_a_damaged_copy_of_the_composition_is_named_and_not_restored(folder, caplog, damage):
    keep_composition(folder)
    overrides, copy = (place / ".hydra" / "overrides.yaml" for place in (folder, folder / "checkpoints"))
    overrides.write_text("- dropout=0.3\n")
    restore_composition(folder)
    assert overrides.read_text() == "- seed=1\n"
    assert [path.name for path in overrides.parent.iterdir()] == ["overrides.yaml"]
    copy.write_text(damage)
    overrides.write_text("- dropout=0.3\n")
    restore_composition(folder)
    assert overrides.read_text() == "- dropout=0.3\n"
    message = f"{copy.parent}: overrides.yaml is damaged, so .hydra keeps the settings of this command. Fix: "
    assert [text.startswith(message) for text in caplog.messages] == [True]


def test_a_run_resumed_with_other_settings_is_marked(folder):
    last = str(folder / LAST)
    assert find_earlier_training(configuration(dropout=0.3, resume=True), folder).other_settings_from == last
    write_status(folder, "interrupted", went_on_with="/first/last.ckpt")
    assert (
        find_earlier_training(configuration(dropout=0.3, resume=True), folder).other_settings_from == "/first/last.ckpt"
    )


@pytest.mark.parametrize("key", ["init_from", "pretraining", "fresh"])
def test_the_source_of_initial_weights_is_a_setting(folder, key):
    with pytest.raises(UserError, match=rf"other settings \({key} None → other\)"):
        find_earlier_training(configuration(**{key: "other"}), folder)


def test_the_place_of_prepared_data_is_no_setting():
    elsewhere = {"data": {"cache": "/elsewhere", "missing": "fetch it"}, "callbacks": {"last": {"every_minutes": 1}}}
    assert not find_changes({"seed": 1}, elsewhere | {"seed": 1})
    moved = elsewhere | {"data": {"dir": "/other/texts"}}
    assert find_changes(elsewhere, moved) == {"data.dir": (None, "/other/texts")}


def test_a_checkpoint_of_the_same_folder_needs_the_same_settings(folder):
    last = str(folder / LAST)
    assert find_earlier_training(configuration(ckpt_path=last), folder).other_settings_from is None
    with pytest.raises(UserError, match=r"other settings \(dropout 0.1 → 0.3\)"):
        find_earlier_training(configuration(ckpt_path=last, dropout=0.3), folder)
    assert (
        find_earlier_training(configuration(ckpt_path=last, dropout=0.3, resume=True), folder).other_settings_from
        == last
    )


def test_a_completed_run_is_only_trained_for_longer(folder):
    write_status(folder, "completed", best={"score": 33.0})
    with pytest.raises(CompletedAlreadyError) as done:
        find_earlier_training(configuration(), folder)
    assert done.value.summary["best"]["score"] == 33.0
    assert find_earlier_training(configuration(trainer={"max_epochs": 4}), folder).seconds == 60.0


@pytest.mark.parametrize("limits", [{"max_epochs": 2}, {"max_epochs": 9, "max_steps": 5}])
def test_a_completed_run_stays_so_under_a_lower_limit(folder, limits):
    write_status(folder, "completed", epochs=3, steps=7)
    with pytest.raises(CompletedAlreadyError):
        find_earlier_training(configuration(trainer=limits), folder)
    assert find_earlier_training(configuration(trainer={"max_epochs": -1, "max_steps": 8}), folder).seconds == 60.0


def test_a_completed_run_cannot_take_settings_without_training(folder):
    """Two folders of one training that differ in the seed alone would be compared as two runs."""
    write_status(folder, "completed", epochs=3, steps=7)
    with pytest.raises(UserError, match=r"as long as trainer.max_epochs .* raise them .* with seed 1 → 2, or train"):
        find_earlier_training(configuration(seed=2, resume=True), folder)
    longer = configuration(seed=2, resume=True, trainer={"max_epochs": 4})
    assert find_earlier_training(longer, folder).other_settings_from == str(folder / LAST)


def test_resume_false_keeps_the_earlier_run(folder):
    left = {"metrics.csv": "step\n7\n", "word_table.tsv.gz": "words", "test/scores.json": "{}", "train.log": "said"}
    (folder / "test").mkdir()
    for name, text in left.items():
        (folder / name).write_text(text)
    (folder / ".hydra" / "overrides.yaml").write_text("- dropout=0.3\n")
    config = configuration(resume=False)
    assert find_earlier_training(config, folder) == EarlierTraining(starts_again=True)
    assert config.ckpt_path is None
    (folder / "below").mkdir()  # another run
    (folder / "below" / "summary.json").write_text("{}")
    put_aside(folder)
    earlier = folder / "earlier.1"
    assert {name: (earlier / name).read_text() for name in left if name != "train.log"} == {
        name: text for name, text in left.items() if name != "train.log"
    }
    assert json.loads((earlier / "summary.json").read_text()) == {"status": "interrupted"}
    assert (earlier / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"
    assert (earlier / "checkpoints" / "last.ckpt").is_file()
    assert sorted(path.name for path in folder.iterdir()) == [".hydra", "below", "earlier.1", "train.log"]
    assert (folder / ".hydra" / "overrides.yaml").read_text() == "- dropout=0.3\n"
    write_status(folder, "failed")
    put_aside(folder)
    assert (folder / "earlier.2" / "summary.json").is_file()
    with pytest.raises(UserError, match=r"ckpt_path=.*: resume=false would put it aside"):
        find_earlier_training(configuration(resume=False, ckpt_path=str(earlier / "checkpoints" / "last.ckpt")), folder)


@pytest.mark.parametrize("killed_at", range(6))
def test_a_run_is_put_aside_completely_after_a_kill_at_any_step(folder, monkeypatch, killed_at):
    (folder / "metrics.csv").write_text("step\n7\n")
    (folder / "test").mkdir()
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    steps, rename, restore = [], Path.rename, training_folder.restore_composition

    def kill_or(step, *arguments):
        steps.append(step)
        if len(steps) == killed_at + 1:
            raise KeyboardInterrupt
        step(*arguments)

    monkeypatch.setattr(Path, "rename", lambda path, place: kill_or(rename, path, place))
    monkeypatch.setattr(training_folder, "restore_composition", lambda path: kill_or(restore, path))
    with pytest.raises(KeyboardInterrupt):
        put_aside(folder)
    finish_putting_aside(folder)
    earlier = folder / "earlier.1"
    assert {path.relative_to(earlier) for path in earlier.rglob("*") if path.is_file()} == files
    assert sorted(path.name for path in folder.iterdir()) == [".hydra", "earlier.1"]
    assert find_earlier_training(configuration(resume=False), folder) == EarlierTraining(starts_again=True)


def test_a_run_that_started_from_another_resumes_from_its_own_checkpoint(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "last.ckpt"
    config = configuration(ckpt_path=str(elsewhere))
    write_status(folder, "interrupted", went_on_with=str(elsewhere))
    earlier = find_earlier_training(config, folder)
    assert (earlier.other_settings_from, earlier.checkpoint) == (str(elsewhere), str(folder / LAST))
    write_status(folder, "completed", went_on_with=str(elsewhere))
    with pytest.raises(CompletedAlreadyError):
        find_earlier_training(configuration(ckpt_path=str(elsewhere)), folder)
    write_status(folder, "interrupted")
    with pytest.raises(UserError, match=r"holds a run that did not resume from ckpt_path=.*resume=false"):
        find_earlier_training(configuration(ckpt_path=str(elsewhere)), folder)


def test_entries_that_only_the_start_of_a_run_knew_are_kept(folder):
    entries = {"started": "2026-01-01", "initialized_from": {"run": "first"}}
    write_status(folder, "interrupted", steps=7, **entries)
    assert find_earlier_training(configuration(), folder).summary == entries


@pytest.mark.parametrize(
    ("trained_by", "warns"),
    [({"nmt.training.experiment.train": "0"}, True), (None, False), (code_version(configuration()), False)],
)
def test_resuming_with_other_code_is_a_warning(folder, trained_by, warns, caplog):
    write_status(folder, "interrupted", **({"code": [trained_by]} if trained_by else {}))
    find_earlier_training(configuration(), folder)
    assert ("changed since it started" in caplog.text) == warns


@pytest.mark.parametrize(
    ("restarts", "trained_by", "resumes"), [("1", "7", True), ("0", "7", False), ("1", "6", False), ("1", None, False)]
)
def test_a_requeued_slurm_job_resumes_its_runs_despite_resume_false(folder, monkeypatch, restarts, trained_by, resumes):
    write_status(folder, "interrupted", slurm_job=trained_by)
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    earlier = find_earlier_training(configuration(resume=False), folder)
    assert (earlier.checkpoint, earlier.starts_again) == ((str(folder / LAST), False) if resumes else (None, True))


@pytest.mark.parametrize(("restarts", "file"), [("0", "best.ckpt"), ("1", "last.ckpt")])
def test_a_requeued_slurm_job_does_not_go_back_to_ckpt_path(folder, monkeypatch, restarts, file):
    write_status(folder, "interrupted", slurm_job="7")
    shutil.copy(folder / LAST, folder / "checkpoints" / "best.ckpt")
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    config = configuration(ckpt_path=str(folder / "checkpoints" / "best.ckpt"))
    assert find_earlier_training(config, folder).checkpoint == str(folder / "checkpoints" / file)


@pytest.mark.parametrize("name", ["summary.json", "metrics.csv", "checkpoints"])
@pytest.mark.parametrize("resume", ["auto", True, False])
def test_files_of_other_programs_are_neither_overwritten_nor_moved(tmp_path, name, resume):
    (tmp_path / "notes.txt").write_text("mine")
    find_earlier_training(configuration(resume=resume), tmp_path)
    file = tmp_path / name / "last.h5" if name == "checkpoints" else tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("[1]")
    with pytest.raises(
        UserError, match=rf"{name}: is not of a run of this project, and would be overwritten. Fix: name ano"
    ):
        find_earlier_training(configuration(resume=resume), tmp_path)
    put_aside(tmp_path)
    assert file.read_text() == "[1]"
    assert (tmp_path / "notes.txt").is_file()


def test_a_rank_that_starts_later_does_not_take_the_first_ranks_files_for_another_programs(tmp_path, monkeypatch):
    (tmp_path / "checkpoints" / "..hydra.0a1b2c3d").mkdir(parents=True)  # it is writing checkpoints/.hydra
    monkeypatch.setattr(training_folder.rank_zero_only, "rank", 1)
    assert find_earlier_training(configuration(), tmp_path) == EarlierTraining()


def test_the_working_directory_is_refused_as_a_runs_folder(tmp_path):
    (tmp_path / "here").mkdir()
    refuse_working_directory(tmp_path / "there", tmp_path / "here")
    refuse_working_directory(tmp_path / "here" / "run", tmp_path / "here")
    for folder in (tmp_path, tmp_path / "here"):
        with pytest.raises(UserError, match=r"is your working directory, or above it\. Fix: name a folder"):
            refuse_working_directory(folder, tmp_path / "here")


def test_other_data_are_refused_unless_resume_is_true(folder, caplog):
    with pytest.raises(UserError, match=r"holds a run on other data .*resume=false .* resume=true"):
        check_other_data("auto", folder)
    check_other_data(True, folder)
    assert "not those with which this run started" in caplog.text


def test_one_process_at_a_time_trains_in_a_folder(tmp_path):
    with lock_run_folder(tmp_path):
        another = lock_run_folder(tmp_path)
        with pytest.raises(UserError, match=r"another process trains there\. Fix: wait for it"):
            another.__enter__()
    with lock_run_folder(tmp_path):  # the first has left
        pass


def test_the_foreign_checkpoint_of_a_run_is_not_forgotten(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    given = folder / "checkpoints" / "last.ckpt"
    before = find_earlier_training(configuration(ckpt_path=str(given)), elsewhere)
    assert before.other_settings_from == str(given)
    write_status(folder, "interrupted", went_on_with="/first/last.ckpt")
    assert find_earlier_training(configuration(), folder).other_settings_from == "/first/last.ckpt"


def test_a_checkpoint_of_weights_alone_cannot_be_resumed(folder):
    save_checkpoint({"nmt": {"config": {}}, "global_step": 7}, folder / "mean.ckpt")
    with pytest.raises(UserError, match=r"mean\.ckpt: holds weights, but not the state of training.*init_from="):
        find_earlier_training(configuration(ckpt_path=str(folder / "mean.ckpt")), folder)
