"""The summary of a run in W&B: the best of each score, test scores, and fingerprints of what was trained."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import WandbLogger

from nmt.runs.folder import SCORES as SCORES_FILE
from nmt.training.lightning_module import SCORES

log = logging.getLogger(__name__)


def begin_wandb_run(logger: WandbLogger) -> None:
    """Let the summary of a run hold the best of each score instead of the last; log the address of its page."""
    for name, better in SCORES.items():
        logger.experiment.define_metric(name, step_metric="trainer/global_step", summary=better)
    if address := logger.experiment.url:
        log.info("W&B: %s", address)


def end_wandb_run(logger: WandbLogger, folder: Path, entries: Mapping[str, Any]) -> None:
    """Add test scores, parameters, the best step, and the fingerprints of code and data to the summary of a run."""
    best = entries.get("best", {})
    values = {"parameters": entries["parameters"]["total"], "code": entries["code"][-1], "data": entries["data"]}
    values |= {"best_step": best.get("step"), "best_score": best.get("score")}
    for file in sorted(folder.glob(f"*/{SCORES_FILE}")):
        scores = json.loads(file.read_text(encoding="utf-8"))["scores"]
        values |= {f"{file.parent.name}/{name}": _to_number(score) for name, score in scores.items()}
    logger.experiment.summary.update(values)


def _to_number(score: Any) -> float:
    return score["score"] if isinstance(score, Mapping) else score
