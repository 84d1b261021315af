"""Choose the folder of an evaluation: TEST, or TEST,KEY=VALUE,… with each setting that is not the run's own."""

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nmt.config.diff import flatten_settings, is_within, override_key
from nmt.config.overrides import format_argument
from nmt.config.resolvers import folder_name
from nmt.runs.folder import SCORES, UNREADABLE, changes_of_test, section_of_test
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.hub import PREFIX, is_hub_name
from nmt.system.safe_files import inside, read_json

log = logging.getLogger(__name__)


def choose_folder(
    runs: list[TrainedRun], settings: DictConfig, test: str, entries: Mapping[str, Any], data_overrides: list[str]
) -> Path:
    """Return the folder of an evaluation, in that of the run, of the ensemble, or in one that `output` names.

    Args:
        runs: The run, or the members of an ensemble.
        settings: The settings of the command.
        test: The name of the test set.
        entries: The entries of scores.json that name the settings of the evaluation.
        data_overrides: The `data.` arguments of the command.
    """
    return _choose_parent(runs, settings) / name_evaluation(test, entries, data_overrides, runs[0])


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


def name_evaluation(test: str, entries: Mapping[str, Any], data_overrides: list[str], run: TrainedRun) -> str:
    """Return TEST,KEY=VALUE,… with the settings of the search, the text and BLEU that are not the run's own."""
    changes, section = _list_changes(test, data_overrides, run), section_of_test(test)
    if not any(is_within(key, (section,)) for key in _flatten_data(run)):  # a new test set: its arguments define it
        changes = [change for change in changes if not is_within(override_key(change), (section,))]
    return _join(test, [*_list_search(entries, run), *changes])


def _flatten_data(run: TrainedRun) -> dict[str, Any]:
    return flatten_settings({"data": OmegaConf.to_container(run.config.data)})


def _list_changes(test: str, data_overrides: list[str], run: TrainedRun) -> list[str]:
    """Return the arguments that change the text or BLEU and are not the run's own settings."""
    settings = {format_argument(key, value) for key, value in _flatten_data(run).items()}
    return [change for change in sorted(changes_of_test(test, data_overrides)) if change not in settings]


def _list_search(entries: Mapping[str, Any], run: TrainedRun) -> list[str]:
    """Return the settings of a search that are not the run's own."""
    defaults = asdict(Search(**run.search)) | EVALUATION_DEFAULTS
    defaults |= {"unknown": run.unknown, "checkpoint": run.default_checkpoint}
    used = entries["search"] | {key: entries[key] for key in EVALUATION_DEFAULTS}
    match entries["members"]:
        case [{"checkpoint": checkpoint}]:
            used["checkpoint"] = checkpoint
    return [format_argument(key, value) for key, value in used.items() if value != defaults.get(key, value)]


def _join(test: str, settings: list[str]) -> str:
    section = section_of_test(test)
    parts = [_shorten(setting.removeprefix(f"{section}.").removeprefix("data.")) for setting in settings]
    return f"{test},{folder_name(','.join(parts))}" if parts else test


def _shorten(setting: str) -> str:
    """Return KEY=VALUE; of paths and lists the last names, with a digest of the whole."""
    key, _, value = setting.partition("=")
    if not re.search(r"[/,\s]", value):
        return setting
    names = "+".join(PurePath(path).name for path in value.strip("[]").split(","))
    return f"{key}={names}-{hashlib.blake2b(value.encode(), digest_size=3).hexdigest()}"


def keep_other_scores(
    folder: Path, test: str, entries: Mapping[str, Any], data_overrides: list[str], run: TrainedRun
) -> None:
    """Rename a folder with scores of another search, text or run, by what was used.

    Earlier versions wrote every search into TEST/. A test set's name or an `output` folder may also be used again.
    """
    try:
        stored = read_json(inside(folder, SCORES))
        before = _identify(folder, test, stored, stored["data_overrides"], run)
        now = _identify(folder, test, entries, data_overrides, run)
        if before == now:
            return
        name = _join(test, [part for part in before if part not in now])
        place, number = folder.with_name(name), 2
        while place.exists():
            place, number = folder.with_name(f"{name},earlier={number}"), number + 1
        folder.rename(place)
        log.warning("%s: the scores there are of other settings; they are now in %s", folder, place)
    except UNREADABLE as error:  # hours of search must not be lost to damaged scores
        log.debug("%s: its scores are replaced (%s)", folder, error)


def _identify(
    folder: Path, test: str, entries: Mapping[str, Any], data_overrides: list[str], run: TrainedRun
) -> list[str]:
    """Return what an evaluation was made with; where the folder is not in the run, the runs too."""
    runs = [] if folder.parent == run.folder else [f"run={Path(one['run']).name}" for one in entries["members"]]
    return [*_list_search(entries, run), *_list_changes(test, data_overrides, run), *runs]
