"""Choose the folder of an evaluation: TEST, or TEST,KEY=VALUE,… with each setting that is not the run's own."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nmt.config.diff import flatten_settings, is_within
from nmt.config.overrides import read_dotlist
from nmt.config.resolvers import folder_name
from nmt.runs.folder import SCORES, UNREADABLE, changes_of_test, section_of_test
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.hub import PREFIX, is_hub_name
from nmt.system.safe_files import inside, read_json

log = logging.getLogger(__name__)

OF_ENSEMBLES = ("weights", "average")  # the name of an ensemble's folder depends on them already


def choose_folder(
    runs: list[TrainedRun], settings: DictConfig, test: str, how: Mapping[str, Any], data_overrides: list[str]
) -> Path:
    """Return the folder of an evaluation, in that of the run, of the ensemble, or in one that `output` names.

    Args:
        runs: The run, or the members of an ensemble.
        settings: The settings of the command.
        test: The name of the test set.
        how: The entries of scores.json that name the settings of the evaluation.
        data_overrides: The `data.` arguments of the command.
    """
    return _choose_parent(runs, settings) / name_evaluation(test, how, data_overrides, runs[0])


def _choose_parent(runs: list[TrainedRun], settings: DictConfig) -> Path:
    if settings.output is not None:
        return Path(str(settings.output))
    if is_hub_name(str(settings.run)):  # because the folder of such a run is the hub's cache
        return Path("outputs") / "hub" / settings.run.removeprefix(PREFIX)
    if len(runs) == 1:
        return runs[0].folder
    identity = [*(str(run.checkpoint.absolute()) for run in runs), str(settings.weights), settings.average]
    digest = hashlib.blake2b("\n".join(identity).encode(), digest_size=6).hexdigest()
    return Path("outputs") / "ensembles" / digest


def name_evaluation(test: str, how: Mapping[str, Any], data_overrides: list[str], run: TrainedRun) -> str:
    """Return TEST,KEY=VALUE,… with the settings of the search, the text and BLEU that are not the run's own."""
    defaults = asdict(Search(**run.search)) | EVALUATION_DEFAULTS
    defaults |= {"unknown": run.unknown, "checkpoint": run.default_checkpoint}
    used = how["search"] | {key: how[key] for key in EVALUATION_DEFAULTS if key not in OF_ENSEMBLES}
    match how["members"]:
        case [{"checkpoint": checkpoint}]:
            used["checkpoint"] = checkpoint
    others = {key: value for key, value in used.items() if value != defaults.get(key, value)}
    return _join(test, others | _find_changes_of_data(test, data_overrides, run))


def _find_changes_of_data(test: str, data_overrides: list[str], run: TrainedRun) -> dict[str, Any]:
    """Return the arguments that change the run's own test set or how BLEU counts; a new test set is its name."""
    own = _flatten_data(run)
    typed = flatten_settings(OmegaConf.to_container(read_dotlist(data_overrides)))
    section = section_of_test(test)
    used = [*changes_of_test(test, typed), *(key for key in typed if is_within(key, ("data.score",)))]
    if _is_new(test, run):
        used = [key for key in used if not is_within(key, (section,))]
    changed = {key: typed[key] for key in used if typed[key] != own.get(key)}
    return {_shorten(key, test): value for key, value in changed.items()}


def _flatten_data(run: TrainedRun) -> dict[str, Any]:
    return flatten_settings({"data": OmegaConf.to_container(run.config.data)})


def _is_new(test: str, run: TrainedRun) -> bool:
    """Return whether the arguments of the command define a test set that the run does not know."""
    return not any(is_within(key, (section_of_test(test),)) for key in _flatten_data(run))


def _join(name: str, settings: Mapping[str, Any]) -> str:
    values = {key: str(value).lower() if isinstance(value, bool) else value for key, value in settings.items()}
    return folder_name(",".join([name, *(f"{key}={value}" for key, value in values.items())]))


def keep_other_text(folder: Path, test: str, data_overrides: list[str], run: TrainedRun) -> None:
    """Rename a folder with scores of another text that was also called `test` by the arguments that named it."""
    if not _is_new(test, run):
        return  # because its name has the changes of its text
    try:
        stored = changes_of_test(test, read_json(inside(folder, SCORES))["data_overrides"])
        place = folder.with_name(folder_name(",".join([folder.name, *(_shorten(key, test) for key in stored)])))
        if set(stored) != set(changes_of_test(test, data_overrides)) and not place.exists():
            folder.rename(place)
            log.warning("%s: the scores there are of another text; they are now in %s", folder, place)
    except UNREADABLE as error:  # hours of search must not be lost to damaged scores
        log.debug("%s: its scores are replaced (%s)", folder, error)


def _shorten(key: str, test: str) -> str:
    return key.removeprefix(f"{section_of_test(test)}.").removeprefix("data.")
