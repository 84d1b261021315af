"""What a run is gone on with by other settings of its optimiser: these are in force, as if they had always been."""

import pytest
import torch
from commands import answer

TINY = ("size=tiny", "logger=none", "data.train.count=40", "data.valid.count=4", "data.batches.size=20")


@pytest.fixture
def trained(tmp_path, capfd, monkeypatch):
    def train(*settings, epochs, folder="run"):
        limits = (f"trainer.max_epochs={epochs}", f"hydra.run.dir={tmp_path}/{folder}")
        status, told = answer("train", *TINY, *settings, *limits, capture=capfd, monkeypatch=monkeypatch)
        if status:
            return told
        return torch.load(tmp_path / folder / "checkpoints" / "last.ckpt", weights_only=True)

    return train


def of_optimizer(stored):
    """Settings, without what it remembers of its steps; a schedule's base rates and epochs."""
    (optimizer,) = stored["optimizer_states"]
    groups = [{name: value for name, value in one.items() if name != "params"} for one in optimizer["param_groups"]]
    return groups, [(one["base_lrs"], one["last_epoch"]) for one in stored["lr_schedulers"]]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("schedule.after=1", "optimizer.lr=0.004"),
        ("schedule.after=1", "schedule.after=3"),
        ("schedule.after=1", "schedule.after=null"),
        ("schedule.after=null", "schedule.after=1"),
        ("schedule.after=null", "optimizer.lr=0.004 +optimizer.betas=[0.8,0.99]"),
    ],
)
def test_settings_of_the_optimizer_are_in_force_when_a_run_goes_on(trained, before, now):
    stopped = trained(before, epochs=2)
    gone_on = trained(before, *now.split(), "resume=true", epochs=3)
    always = trained(before, *now.split(), epochs=3, folder="always")
    (groups, schedules), (as_always, schedules_always) = of_optimizer(gone_on), of_optimizer(always)
    for group, other in zip(groups, as_always, strict=True):
        group.setdefault("initial_lr", group["lr"])
        other.setdefault("initial_lr", other["lr"])
        assert group == other
    assert schedules == schedules_always
    assert groups != of_optimizer(stopped)[0]
    steps = [one["optimizer_states"][0]["state"][0]["step"].item() for one in (stopped, gone_on)]
    assert steps == [4, 6]  # what it remembers is kept


def test_a_run_goes_on_with_its_own_optimizer_and_as_patiently_as_told(trained):
    trained("callbacks.early_stopping.patience=3", epochs=1)
    told = trained("optimizer=sgd", "resume=true", epochs=2)
    assert "what torch.optim.Adam remembers of its steps is nothing that torch.optim.SGD could go on with" in told
    stored = trained("callbacks.early_stopping.patience=7", "resume=true", epochs=2)
    (patience,) = (state["patience"] for key, state in stored["callbacks"].items() if key.startswith("EarlyStopping"))
    assert patience == 7
