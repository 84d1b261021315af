"""What the same command does in a folder that holds a run already."""

import json

import pytest
from omegaconf import OmegaConf

from nmt.errors import UserError
from nmt.run import save_checkpoint
from nmt.training.resume import Before, CompletedAlreadyError, settle

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
    with pytest.raises(UserError, match="resume=maybe: choose auto, true or false"):
        settle(configuration(resume="maybe"), folder)


def test_a_completed_run_is_not_trained_again_but_for_longer(folder):
    say(folder, "completed", best={"score": 33.0})
    with pytest.raises(CompletedAlreadyError) as done:
        settle(configuration(), folder)
    assert done.value.summary["best"]["score"] == 33.0
    assert settle(configuration(trainer={"max_epochs": 4}), folder).seconds == 60.0


def test_a_run_begun_anew_keeps_the_checkpoints_there_were(folder):
    for number in (1, 2):
        config = configuration(resume=False)
        assert settle(config, folder) == Before()
        assert config.ckpt_path is None
        assert (folder / f"checkpoints.{number}").is_dir()
    assert (folder / "checkpoints.1" / "last.ckpt").is_file()


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
