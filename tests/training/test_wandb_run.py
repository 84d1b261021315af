"""The logger for W&B: what it refuses, logs and survives, with stand-ins for W&B's run."""

import logging
import os
from types import SimpleNamespace

import pytest
from pytorch_lightning.loggers import WandbLogger

from nmt.errors import ConfigurationError, UserError
from nmt.training import wandb_run
from nmt.training.run_summary import _close
from nmt.training.wandb_run import WandbRun


class Page:
    """A run in W&B that remembers what it is given."""

    def __init__(self, url=None):
        self.url, self.id, self.metrics, self.config = url, "abc", {}, {}
        self.config = SimpleNamespace(update=lambda values, **_: self.settings.update(values))
        self.settings = {}

    def define_metric(self, name, **settings):
        self.metrics[name] = settings


@pytest.fixture
def opened(monkeypatch):
    """Return a function that begins a run whose opening gives these results, one after another."""
    choices = {"attention": "coverage", "memory": None, "hydra/launcher": "processes"}
    hydra = SimpleNamespace(runtime=SimpleNamespace(choices=wandb_run.OmegaConf.create(choices)))
    monkeypatch.setattr(wandb_run.HydraConfig, "get", lambda: hydra)

    def open_run(*results):
        waiting, modes = list(results), []

        def begin(self):
            modes.append(self._wandb_init.get("mode"))
            result = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(WandbLogger, "experiment", property(begin))
        monkeypatch.setattr(os, "environ", dict(os.environ))  # because it takes W&B's directories
        WandbRun(save_dir="FOLDER").log_hyperparams({})
        return modes

    return open_run


def test_address_of_the_page_is_logged_and_choices_are_settings(opened, caplog):
    caplog.set_level(logging.INFO)
    page = Page(url="https://wandb.ai/me/nmt/runs/abc")
    opened(page)
    assert caplog.messages == ["W&B: https://wandb.ai/me/nmt/runs/abc"]
    assert page.settings == {"choices": {"attention": "coverage", "memory": None}}
    assert page.metrics["valid/bleu"] == {"step_metric": "trainer/global_step", "summary": "max"}
    assert page.metrics["valid/loss"]["summary"] == "min"


def test_run_is_logged_offline_if_wandb_cannot_be_reached(opened, caplog, monkeypatch):
    errors = pytest.importorskip("wandb.errors")
    monkeypatch.setattr("wandb.teardown", lambda: None)
    modes = opened(errors.CommError("connection refused\nConsider increasing"), Page())
    assert (modes[0], set(modes[1:])) == (None, {"offline"})
    assert caplog.messages == [
        "logger=wandb: W&B cannot be reached, so the run is logged offline (connection refused). "
        "Fix: `wandb sync FOLDER/wandb/offline-run-*` sends it"
    ]


def test_missing_key_is_an_error_with_a_fix(opened):
    errors = pytest.importorskip("wandb.errors")
    reason = (
        r"logger=wandb: No API key configured. Use `wandb login` to log in. Fix: correct this, or give logger=local"
    )
    with pytest.raises(UserError, match=reason):
        opened(errors.UsageError("No API key configured. Use `wandb login` to log in."))


@pytest.mark.parametrize("wrong", ["all", "true", None, 2])
def test_unknown_choice_of_artifacts_is_refused(wrong):
    with pytest.raises(ConfigurationError, match=rf"logger.wandb.artifacts={wrong}: choose none, checkpoint or text"):
        WandbRun(artifacts=wrong)


def test_failing_upload_of_artifacts_is_a_warning(tmp_path, caplog):
    data = SimpleNamespace(name="toy", prepare=lambda: SimpleNamespace(training_identity={}))
    wandb_run.log_artifacts(Page(), tmp_path, {"checkpoint": "checkpoints/best.ckpt"}, data, with_text=False)
    (message,) = caplog.messages
    assert message.startswith("logger.wandb.artifacts: not all artifacts were logged (")


def test_run_does_not_wait_forever_for_its_upload(monkeypatch, caplog):
    def finish(exit_code):
        raise TimeoutError

    monkeypatch.setattr(WandbLogger, "experiment", SimpleNamespace(finish=finish))
    _close([WandbRun(save_dir="FOLDER")], exit_code=0)
    assert caplog.messages == [
        "W&B: the upload took too long. Fix: `wandb sync --include-online FOLDER/wandb/run-*` sends the rest"
    ]
