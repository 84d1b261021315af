"""Artifacts of a run in W&B: the data as an input, the best checkpoint as an output. W&B draws lineage from them."""

import json
import logging
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import SIDES
from nmt.errors import first_line
from nmt.training.wandb_internals import log_input

if TYPE_CHECKING:
    from wandb import Artifact, Run

log = logging.getLogger(__name__)


def log_artifacts(run: "Run", folder: Path, best: Mapping[str, Any], data: TranslationData, *, with_text: bool) -> None:
    """Log the data as an input of a run and the best checkpoint as its output; a failure is a warning.

    `best` is the entry of the run's summary, empty if no checkpoint was kept. The data are digests; with text, also
    the preprocessed training and validation text.
    """
    try:
        log_input(run, _describe_data(data, with_text=with_text))
        if best:
            run.log_artifact(_hold_checkpoint(run.id, folder / best["checkpoint"], best), aliases=["latest", "best"])
    except Exception as error:  # because W&B must not fail a run that is trained
        log.warning("logger.wandb.artifacts: not all artifacts were logged (%s)", first_line(error))


def _describe_data(data: TranslationData, *, with_text: bool) -> "Artifact":
    """Return an artifact whose version is the same for all runs that were trained on the same data."""
    from wandb import Artifact

    artifact = Artifact(f"data-{re.sub(r'[^a-zA-Z0-9_.-]', '-', data.name)}", "dataset")
    with artifact.new_file("data.json") as file:
        json.dump(data.prepare().training_identity, file, indent=1, sort_keys=True)
    if with_text:
        _add_text(artifact, data)
    return artifact


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


def _hold_checkpoint(run_id: str, checkpoint: Path, best: Mapping[str, Any]) -> "Artifact":
    from wandb import Artifact

    artifact = Artifact(f"model-{run_id}", "model", metadata=dict(best))
    artifact.add_file(str(checkpoint), checkpoint.name, policy="immutable")  # a reference, because a copy takes space
    return artifact
