"""W&B's logger of a run: opened offline if W&B cannot be reached, and closed with a summary and artifacts."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from nmt.data.datamodule import TranslationData
from nmt.errors import ConfigurationError, UserError, first_line
from nmt.runs.folder import SCORES as SCORES_FILE
from nmt.system.files import check_writable
from nmt.training.lightning_internals import log_offline, silence_anonymous
from nmt.training.lightning_module import SCORES
from nmt.training.wandb_artifacts import log_artifacts

log = logging.getLogger(__name__)

ENVIRONMENT = {  # unless it has others
    "WANDB_SILENT": "true",  # because summary.json says where its files are
    "WANDB_INIT_TIMEOUT": "8",  # seconds until a run is logged offline
    "WANDB_FINISH_TIMEOUT": "600",  # seconds until a trained run no longer waits for its upload
    "WANDB_FINISH_TIMEOUT_RAISES": "true",
}
DIRECTORIES = {"WANDB_DATA_DIR": "data", "WANDB_CACHE_DIR": "cache"}


class WandbRun(WandbLogger):
    """Lightning's logger for W&B.

    Args:
        artifacts: `checkpoint` logs the best checkpoint and digests of the data; `text` the text of the data too.
        settings: The arguments of `WandbLogger`.
    """

    def __init__(self, *, artifacts: str = "none", **settings: Any):
        if artifacts not in ("none", "checkpoint", "text"):
            raise ConfigurationError(f"logger.wandb.artifacts={artifacts}: choose none, checkpoint or text")
        for name in DIRECTORIES:  # because W&B first uses them in a validation
            if folder := os.environ.get(name):
                fix = f". Fix: unset {name} to keep its files in the run's folder"
                check_writable(Path(folder), f"{name}={folder}", fix)
        super().__init__(**settings)
        silence_anonymous(self)
        self.artifacts = artifacts

    @rank_zero_only
    def begin(self, folder: Path) -> None:
        """Open the run, with its files in the run's folder; log the address of its page, and say how W&B shows it."""
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        for name, place in DIRECTORIES.items():  # because a container of another user cannot write in HOME
            os.environ.setdefault(name, str((folder / "wandb" / place).absolute()))
        self._open()
        for name, better in SCORES.items():
            self.experiment.define_metric(name, step_metric="trainer/global_step", summary=better)
        self.experiment.config.update({"choices": _list_choices()}, allow_val_change=True)
        if address := self.experiment.url:
            log.info("W&B: %s", address)

    def _open(self) -> None:
        import wandb
        from wandb.errors import CommError, UsageError

        try:
            assert self.experiment is not None
        except CommError as error:
            place = f"{self.save_dir}/wandb/offline-run-*"
            log.warning(
                "logger=wandb: W&B cannot be reached, so the run is logged offline (%s). Fix: `wandb sync %s` sends it",
                first_line(error),
                place,
            )
            wandb.teardown()  # because W&B's process would say that the run is open already
            os.environ.pop("WANDB_SERVICE", None)  # which names such a process of the program that started this one
            log_offline(self)
        except UsageError as error:
            reason = first_line(error).rstrip(".")
            raise UserError(f"logger=wandb: {reason}. Fix: correct this, or give logger=local") from error

    def end(self, folder: Path, entries: Mapping[str, Any], data: TranslationData) -> None:
        """Add test scores and entries of summary.json to the run's summary in W&B, and log its artifacts."""
        best = entries.get("best", {})
        values = {"parameters": entries["parameters"]["total"], "code": entries["code"][-1], "data": entries["data"]}
        values |= {"best_step": best.get("step"), "best_score": best.get("score")}
        for file in sorted(folder.glob(f"*/{SCORES_FILE}")):
            scores = json.loads(file.read_text(encoding="utf-8"))["scores"]
            values |= {f"{file.parent.name}/{name}": _to_number(score) for name, score in scores.items()}
        self.experiment.summary.update(values)
        if self.artifacts != "none":
            log_artifacts(self.experiment, folder, best, data, with_text=self.artifacts == "text")


def _list_choices() -> dict[str, Any]:
    """Return the choice of each group, because the configuration holds only the settings that a choice brings."""
    choices = OmegaConf.to_container(HydraConfig.get().runtime.choices)
    return {group: choice for group, choice in choices.items() if not group.startswith("hydra/")}


def _to_number(score: Any) -> float:
    return score["score"] if isinstance(score, Mapping) else score
