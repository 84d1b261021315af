"""Settings of the optimizer that change on resume: they apply as if they had always been so."""

import pytest
import torch
from commands import answer

pytestmark = pytest.mark.slow

TINY = ("size=tiny", "logger=none", "data.train.count=40", "data.valid.count=4", "data.batches.size=20")


@pytest.fixture
def trained(tmp_path, capfd, monkeypatch):
    def train(*settings, epochs, folder="run"):
        limits = (f"trainer.max_epochs={epochs}", f"hydra.run.dir={tmp_path}/{folder}")
        status, errors = answer("train", *TINY, *settings, *limits, capture=capfd, monkeypatch=monkeypatch)
        if status:
            return errors
        return torch.load(tmp_path / folder / "checkpoints" / "last.ckpt", weights_only=True)

    return train


def of_optimizer(stored):
    """Return the settings of an optimizer, and the base rates and epochs of its schedule."""
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
def test_changed_settings_of_the_optimizer_apply_on_resume(trained, before, now):
    stopped = trained(before, epochs=2)
    resumed = trained(before, *now.split(), "resume=true", epochs=3)
    always = trained(before, *now.split(), epochs=3, folder="always")
    (groups, schedules), (as_always, schedules_always) = of_optimizer(resumed), of_optimizer(always)
    for group, other in zip(groups, as_always, strict=True):
        group.setdefault("initial_lr", group["lr"])
        other.setdefault("initial_lr", other["lr"])
        assert group == other
    assert schedules == schedules_always
    assert groups != of_optimizer(stopped)[0]
    steps = [one["optimizer_states"][0]["state"][0]["step"].item() for one in (stopped, resumed)]
    assert steps == [4, 6]  # its state is kept


def test_another_schedule_applies_from_a_resume_on(trained, tmp_path):
    (tmp_path / "mine" / "conf" / "schedule").mkdir(parents=True)
    text = "{_target_: torch.optim.lr_scheduler.StepLR, _partial_: true, step_size: 1, gamma: 0.5}\n"
    (tmp_path / "mine" / "conf" / "schedule" / "step.yaml").write_text(text)
    by_steps = (f"user_dir={tmp_path}/mine", "schedule=step")
    trained(*by_steps, epochs=2)
    stored = trained(*by_steps, "schedule.gamma=0.1", "resume=true", epochs=3)
    (group,) = stored["optimizer_states"][0]["param_groups"]
    assert group["lr"] == pytest.approx(group["initial_lr"] * 0.5 * 0.5 * 0.1)
    stored = trained(by_steps[0], "schedule.after=3", "resume=true", epochs=4)
    (group,) = stored["optimizer_states"][0]["param_groups"]
    assert group["lr"] == pytest.approx(group["initial_lr"] * 0.25)


def test_a_resumed_run_keeps_its_optimizer_and_takes_a_new_patience(trained):
    trained("callbacks.early_stopping.patience=3", epochs=1)
    errors = trained("optimizer=sgd", "resume=true", epochs=2)
    assert "the state of torch.optim.Adam in it is of no use to torch.optim.SGD" in errors
    stored = trained("callbacks.early_stopping.patience=7", "resume=true", epochs=2)
    (patience,) = (state["patience"] for key, state in stored["callbacks"].items() if key.startswith("EarlyStopping"))
    assert patience == 7
