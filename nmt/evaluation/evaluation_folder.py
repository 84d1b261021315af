"""Choose the folder of an evaluation: TEST, or TEST,KEY=VALUE,… with each setting that is not the run's own."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from nmt.config.resolvers import folder_name
from nmt.runs.folder import SCORES
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.hub import PREFIX, is_hub_name
from nmt.system.safe_files import UnreadableError, inside, read_json

log = logging.getLogger(__name__)

OF_ENSEMBLES = ("weights", "average")  # the name of an ensemble's folder depends on them already


def choose_folder(runs: list[TrainedRun], settings: DictConfig, test: str, how: Mapping[str, Any]) -> Path:
    """Return the folder of an evaluation; in a folder that `output` names, that is TEST for any settings.

    Args:
        runs: The run, or the members of an ensemble.
        settings: The settings of the command.
        test: The name of the test set.
        how: The entries of scores.json that name the settings of the evaluation.
    """
    if settings.output is not None:
        return Path(str(settings.output)) / test
    if is_hub_name(str(settings.run)):  # because the folder of such a run is the hub's cache
        return Path("outputs") / "hub" / settings.run.removeprefix(PREFIX) / name_evaluation(test, how, runs[0])
    if len(runs) == 1:
        return runs[0].folder / name_evaluation(test, how, runs[0])
    identity = [*(str(run.checkpoint.absolute()) for run in runs), str(settings.weights), settings.average]
    digest = hashlib.blake2b("\n".join(identity).encode(), digest_size=6).hexdigest()
    return Path("outputs") / "ensembles" / digest / name_evaluation(test, how, runs[0])


def name_evaluation(test: str, how: Mapping[str, Any], run: TrainedRun) -> str:
    """Return TEST,KEY=VALUE,… with the settings in a scores.json that are not the run's own."""
    defaults = asdict(Search(**run.search)) | EVALUATION_DEFAULTS
    defaults |= {"unknown": run.unknown, "checkpoint": run.default_checkpoint}
    used = {key: how[key] for key in EVALUATION_DEFAULTS if key in how and key not in OF_ENSEMBLES}
    if isinstance(search := how.get("search"), Mapping):
        used = dict(search) | used
    match how.get("members"):
        case [{"checkpoint": str(checkpoint)}]:
            used["checkpoint"] = checkpoint
    others = [f"{key}={_as_argument(value)}" for key, value in used.items() if value != defaults.get(key, value)]
    return folder_name(",".join([test, *others]))


def _as_argument(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def keep_other_settings(folder: Path, test: str, how: Mapping[str, Any], run: TrainedRun) -> None:
    """Rename a folder with scores of other settings, which earlier versions and `output` put there, by its settings."""
    try:
        name = name_evaluation(test, read_json(inside(folder, SCORES)), run)
        place = folder.with_name(name)
        if name != name_evaluation(test, how, run) and not place.exists():
            folder.rename(place)
            log.warning("%s: the scores there are of other settings; they are now in %s", folder, place)
    except (UnreadableError, OSError, ValueError) as error:  # hours of search must not be lost to damaged scores
        log.debug("%s: its scores are replaced (%s)", folder, error)
