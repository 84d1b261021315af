"""What the same command does in a folder that holds a run already."""

import json

import pytest
from omegaconf import OmegaConf

from nmt.config.diff import RENAMED, changed
from nmt.errors import UserError
from nmt.runs.checkpoint_file import save_checkpoint
from nmt.runs.provenance import code_version
from nmt.training.resume import Before, CompletedAlreadyError, alone_in, must_not_hold, on_other_data, put_aside, settle

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
    say(tmp_path, "interrupted")
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    (tmp_path / "checkpoints" / ".hydra").mkdir()
    (tmp_path / "checkpoints" / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    return tmp_path


def say(folder, status, **more):
    (folder / "summary.json").write_text(json.dumps({"status": status} | more))


def test_an_empty_folder_begins_a_run(tmp_path):
    config = configuration()
    assert settle(config, tmp_path) == Before()
    assert config.ckpt_path is None


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_what_was_not_completed_is_gone_on_with(folder, status):
    say(folder, status)
    config = configuration(name="other", trainer={"max_epochs": 9})  # of no weight; and for longer
    assert settle(config, folder) == Before(seconds=60.0, metrics={"valid/bleu": 12.5})
    assert config.ckpt_path == str(folder / "checkpoints" / "last.ckpt")


def test_which_test_set_is_scored_is_no_other_setting(folder):
    say(folder, "completed", epochs=3)
    with pytest.raises(CompletedAlreadyError):
        settle(configuration(data={"test": "long"}), folder)
    with pytest.raises(UserError, match=r"other settings \(data.tests.long.count None → 7\)"):
        settle(configuration(data={"test": "long", "tests": {"long": {"count": 7}}}), folder)


def test_other_settings_are_named_and_the_runs_own_composition_is_put_back(folder):
    (folder / ".hydra" / "overrides.yaml").write_text("- dropout=0.3\n")  # Hydra has written it by then
    with pytest.raises(
        UserError, match=r"other settings \(dropout 0\.1 → 0\.3, seed 1 → 2\).*resume=false.*resume=true"
    ):
        settle(configuration(dropout=0.3, seed=2), folder)
    assert (folder / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"
    config = configuration(dropout=0.3, resume=True)
    settle(config, folder)
    assert config.ckpt_path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"resume": "maybe"}, "resume=maybe: choose auto, true or false"),
        ({"ckpt_path": "no/where.ckpt"}, "did not go on with ckpt_path=no/where.ckpt"),
        ({"model": {"size": "${oc.env:HOME}"}}, "refused; a run's settings may refer to each other"),
    ],
)
def test_any_refused_command_leaves_the_runs_own_composition(folder, changes, said):
    (folder / ".hydra" / "overrides.yaml").write_text("- something=else\n")
    with pytest.raises(UserError, match=said):
        settle(configuration(**changes), folder)
    assert (folder / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"


def test_a_run_with_other_settings_is_no_run_of_these_settings_alone(folder):
    own = str(folder / "checkpoints" / "last.ckpt")
    assert settle(configuration(dropout=0.3, resume=True), folder).of_another == own
    say(folder, "interrupted", went_on_with="/first/last.ckpt")
    assert settle(configuration(dropout=0.3, resume=True), folder).of_another == "/first/last.ckpt"


@pytest.mark.parametrize("key", ["init_from", "pretraining", "fresh"])
def test_what_a_run_started_from_is_a_setting(folder, key):
    with pytest.raises(UserError, match=rf"other settings \({key} None → other\)"):
        settle(configuration(**{key: "other"}), folder)


@pytest.mark.parametrize("names", RENAMED.items())
def test_a_run_of_when_its_parts_had_other_names_is_the_same_run(names):
    before, now = ({"callbacks": {"average": {"_target_": name, "decay": 0.9}}} for name in names)
    assert not changed(before, now)
    assert changed(before, now | {"seed": [2]}) == {"seed": (None, [2])}


def test_a_rate_that_stays_is_one_that_is_never_halved():
    before = {"schedule": {"_target_": "nmt.training.lr_schedule.constant", "_partial_": True}}
    assert not changed(
        before, {"schedule": {"_target_": "nmt.training.lr_schedule.halving", "_partial_": True, "after": None}}
    )


def test_where_prepared_data_lie_is_no_setting():
    elsewhere = {"data": {"cache": "/elsewhere", "missing": "fetch it"}, "callbacks": {"last": {"every_minutes": 1}}}
    assert not changed({"seed": 1}, elsewhere | {"seed": 1})
    assert changed(elsewhere, elsewhere | {"data": {"dir": "/other/texts"}}) == {"data.dir": (None, "/other/texts")}


def test_a_checkpoint_of_its_own_folder_is_of_the_same_settings_too(folder):
    own = str(folder / "checkpoints" / "last.ckpt")
    assert settle(configuration(ckpt_path=own), folder).of_another is None
    with pytest.raises(UserError, match=r"other settings \(dropout 0.1 → 0.3\)"):
        settle(configuration(ckpt_path=own, dropout=0.3), folder)
    assert settle(configuration(ckpt_path=own, dropout=0.3, resume=True), folder).of_another == own


def test_a_completed_run_is_not_trained_again_but_for_longer(folder):
    say(folder, "completed", best={"score": 33.0})
    with pytest.raises(CompletedAlreadyError) as done:
        settle(configuration(), folder)
    assert done.value.summary["best"]["score"] == 33.0
    assert settle(configuration(trainer={"max_epochs": 4}), folder).seconds == 60.0


@pytest.mark.parametrize("limits", [{"max_epochs": 2}, {"max_epochs": 9, "max_steps": 5}])
def test_a_completed_run_stays_completed_where_it_may_be_trained_less_than_it_was(folder, limits):
    say(folder, "completed", epochs=3, steps=7)
    with pytest.raises(CompletedAlreadyError):
        settle(configuration(trainer=limits), folder)
    assert settle(configuration(trainer={"max_epochs": -1, "max_steps": 8}), folder).seconds == 60.0


def test_a_completed_run_has_no_settings_that_it_was_not_trained_with(folder):
    """Two folders of one training, told apart by their seeds alone, would be compared as two."""
    say(folder, "completed", epochs=3, steps=7)
    with pytest.raises(
        UserError, match=r"as long as trainer.max_epochs .* raise them .* with seed 1 → 2; another fold"
    ):
        settle(configuration(seed=2, resume=True), folder)
    longer = configuration(seed=2, resume=True, trainer={"max_epochs": 4})
    assert settle(longer, folder).of_another == str(folder / "checkpoints" / "last.ckpt")


def test_a_run_begun_anew_keeps_the_whole_run_there_was(folder):
    left = {"metrics.csv": "step\n7\n", "word_table.tsv.gz": "words", "test/scores.json": "{}", "train.log": "said"}
    (folder / "test").mkdir()
    for name, text in left.items():
        (folder / name).write_text(text)
    (folder / ".hydra" / "overrides.yaml").write_text("- dropout=0.3\n")
    config = configuration(resume=False)
    assert settle(config, folder) == Before(anew=True)
    assert config.ckpt_path is None
    (folder / "below").mkdir()  # a run of its own
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
    say(folder, "failed")
    put_aside(folder)
    assert (folder / "earlier.2" / "summary.json").is_file()
    with pytest.raises(UserError, match=r"resume=false would put ckpt_path=.* aside"):
        settle(configuration(resume=False, ckpt_path=str(earlier / "checkpoints" / "last.ckpt")), folder)


def test_a_run_begun_with_anothers_checkpoint_goes_on_with_its_own(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "last.ckpt"
    config = configuration(ckpt_path=str(elsewhere))
    say(folder, "interrupted", went_on_with=str(elsewhere))
    assert settle(config, folder).of_another == str(elsewhere)
    assert config.ckpt_path == str(folder / "checkpoints" / "last.ckpt")
    say(folder, "completed", went_on_with=str(elsewhere))
    with pytest.raises(CompletedAlreadyError):
        settle(configuration(ckpt_path=str(elsewhere)), folder)
    say(folder, "interrupted")
    with pytest.raises(UserError, match=r"holds a run that did not go on with ckpt_path=.*resume=false"):
        settle(configuration(ckpt_path=str(elsewhere)), folder)


def test_what_only_the_beginning_of_a_run_knew_is_kept(folder):
    told = {"started": "2026-01-01", "initialized_from": {"run": "first"}}
    say(folder, "interrupted", steps=7, **told)
    assert settle(configuration(), folder).told == told


@pytest.mark.parametrize(("trained_by", "told"), [("other", True), (None, False), (code_version(), False)])
def test_going_on_with_other_code_is_told(folder, trained_by, told, caplog):
    say(folder, "interrupted", **({"code": [trained_by]} if trained_by else {}))
    settle(configuration(), folder)
    assert ("not what this run began with" in caplog.text) == told


def test_what_began_anew_goes_on_when_slurm_gives_its_command_again(folder, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    config = configuration(resume=False)
    assert settle(config, folder).seconds == 60.0
    assert config.ckpt_path == str(folder / "checkpoints" / "last.ckpt")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "0")
    config = configuration(resume=False)
    assert settle(config, folder) == Before(anew=True)


@pytest.mark.parametrize("name", ["summary.json", "metrics.csv", "checkpoints"])
@pytest.mark.parametrize("resume", ["auto", True, False])
def test_what_another_program_left_is_neither_overwritten_nor_moved(tmp_path, name, resume):
    (tmp_path / "notes.txt").write_text("mine")
    settle(configuration(resume=resume), tmp_path)
    file = tmp_path / name / "last.h5" if name == "checkpoints" else tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("[1]")
    with pytest.raises(UserError, match=rf"{name}: not of a run of this project, and would be overwritten: name ano"):
        settle(configuration(resume=resume), tmp_path)
    put_aside(tmp_path)
    assert file.read_text() == "[1]"
    assert (tmp_path / "notes.txt").is_file()


def test_a_runs_folder_is_not_where_the_user_works(tmp_path):
    (tmp_path / "here").mkdir()
    must_not_hold(tmp_path / "there", tmp_path / "here")
    must_not_hold(tmp_path / "here" / "run", tmp_path / "here")
    for folder in (tmp_path, tmp_path / "here"):
        with pytest.raises(UserError, match="is where you work, or above it; name a folder"):
            must_not_hold(folder, tmp_path / "here")


@pytest.mark.parametrize(("resume", "goes_on"), [("auto", False), (True, True)])
def test_other_data_are_refused_or_told_of(folder, resume, goes_on, caplog):
    config = configuration(resume=resume, ckpt_path="last.ckpt")
    if goes_on:
        assert on_other_data(config, folder) == "last.ckpt"
        assert "not those this run began with" in caplog.text
        return
    with pytest.raises(UserError, match=r"holds a run on other data .*resume=false .* resume=true"):
        on_other_data(config, folder)


def test_one_process_at_a_time_trains_in_a_folder(tmp_path):
    with alone_in(tmp_path):
        another = alone_in(tmp_path)
        with pytest.raises(UserError, match="another process trains there; wait for it"):
            another.__enter__()
    with alone_in(tmp_path):  # the first has left
        pass


def test_that_a_run_went_on_with_another_is_not_forgotten(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    given = folder / "checkpoints" / "last.ckpt"
    before = settle(configuration(ckpt_path=str(given)), elsewhere)
    assert before.of_another == str(given)
    say(folder, "interrupted", went_on_with="/first/last.ckpt")
    assert settle(configuration(), folder).of_another == "/first/last.ckpt"


def test_weights_alone_are_no_place_to_go_on_from(folder):
    save_checkpoint({"nmt": {"config": {}}, "global_step": 7}, folder / "mean.ckpt")
    with pytest.raises(UserError, match=r"mean\.ckpt: holds weights, but not where training stood.*init_from="):
        settle(configuration(ckpt_path=str(folder / "mean.ckpt")), folder)
