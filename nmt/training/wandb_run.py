"""W&B's logger of a run: opened offline if W&B cannot be reached, and closed with a summary and artifacts."""

import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import SIDES
from nmt.errors import ConfigurationError, UserError, first_line
from nmt.runs.folder import SCORES as SCORES_FILE
from nmt.system.files import check_writable
from nmt.training.lightning_internals import log_offline, silence_anonymous
from nmt.training.lightning_module import SCORES
from nmt.training.wandb_internals import log_input

if TYPE_CHECKING:
    from wandb import Artifact, Run

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
    def log_hyperparams(self, params: Any) -> None:
        """Open the run, with its files in the run's folder; log its settings, and say how W&B shows its scores."""
        folders = {name: str(Path(self.save_dir, "wandb", place).absolute()) for name, place in DIRECTORIES.items()}
        for name, value in (ENVIRONMENT | folders).items():
            os.environ.setdefault(name, value)
        run = self._open()
        super().log_hyperparams(params)
        for name, better in SCORES.items():
            run.define_metric(name, step_metric="trainer/global_step", summary=better)
        choices = OmegaConf.to_container(HydraConfig.get().runtime.choices)  # the settings do not name them
        choices = {group: choice for group, choice in choices.items() if not group.startswith("hydra/")}
        run.config.update({"choices": choices}, allow_val_change=True)
        if run.url:
            log.info("W&B: %s", run.url)

    def _open(self) -> "Run":
        import wandb
        from wandb.errors import CommError, UsageError

        try:
            return self.experiment
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
            return self.experiment
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
            values |= {
                f"{file.parent.name}/{name}": score["score"] if isinstance(score, dict) else score
                for name, score in scores.items()
            }
        self.experiment.summary.update(values)
        if self.artifacts != "none":
            log_artifacts(self.experiment, folder, best, data, with_text=self.artifacts == "text")


def log_artifacts(run: "Run", folder: Path, best: Mapping[str, Any], data: TranslationData, *, with_text: bool) -> None:
    """Log the data as an input of a run and the best checkpoint as its output; a failure is a warning.

    `best` is the entry of the run's summary, empty if no checkpoint was kept. The data are digests, one version for all
    runs on the same data; with text, also the preprocessed training and validation text.
    """
    try:
        from wandb import Artifact

        dataset = Artifact(f"data-{re.sub(r'[^a-zA-Z0-9_.-]', '-', data.name)}", "dataset")
        with dataset.new_file("data.json") as file:
            json.dump(data.prepare().training_identity, file, indent=1, sort_keys=True)
        if with_text:
            _add_text(dataset, data)
        log_input(run, dataset)
        if best:
            model = Artifact(f"model-{run.id}", "model", metadata=dict(best))
            path = folder / best["checkpoint"]
            model.add_file(str(path), path.name, policy="immutable")  # a reference, because a copy takes space
            run.log_artifact(model, aliases=["latest", "best"])
    except Exception as error:  # because W&B must not fail a run that is trained
        log.warning("logger.wandb.artifacts: not all artifacts were logged (%s)", first_line(error))


def _add_text(artifact: "Artifact", data: TranslationData) -> None:
    """Add the preprocessed training and validation text, a line a sentence."""
    with ExitStack() as files:
        sides = [files.enter_context(artifact.new_file(f"train.{side}.txt", encoding="utf-8")) for side in SIDES]
        for pair in data.training_words():
            for file, words in zip(sides, pair, strict=True):
                file.write(f"{words}\n")
    for side in SIDES:
        with artifact.new_file(f"valid.{side}.txt", encoding="utf-8") as file:
            file.writelines(f"{words}\n" for words in data.prepare().words("valid", side))
