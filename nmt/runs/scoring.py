"""The scores of a run after its training: how it is scored, and whether it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from nmt.runs.folder import (
    BEST,
    CHECKPOINTS,
    SCORES,
    UNREADABLE,
    changes_of_test,
    list_evaluations,
    name_of_test,
    read_summary,
)
from nmt.system.safe_files import inside, read_json


@dataclass(frozen=True)
class Scoring:
    """How a run is scored.

    Args:
        test: the test set; None: the validation set.
        unknown: the treatment of unknown words.
        search: settings of the search.
        device: where it is searched.
        user_dir: the folder of the user's classes.
    """

    test: str | None
    unknown: str
    search: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"
    user_dir: str | None = None


def read_scoring(config: DictConfig) -> Scoring | None:
    """Return how the run of these settings is scored after its training; None: it is not."""
    if not config.score_test:
        return None
    search = OmegaConf.to_container(config.search, resolve=True)
    return Scoring(
        test=config.data.test,
        unknown=config.score_unknown,
        search={key: value for key, value in search.items() if key != "_target_"},
        device=_choose_device(config.trainer),
        user_dir=config.user_dir,
    )


def _choose_device(trainer: DictConfig) -> str:
    """Return the device of the first rank."""
    if trainer.accelerator == "cpu":
        return "cpu"
    return f"cuda:{trainer.devices[0]}" if isinstance(trainer.devices, ListConfig) else "auto"


def is_scored(folder: Path, scoring: Scoring) -> bool:
    """Return whether a run's best weights were scored in this way, so that it need not be done again.

    In TEST/ scores of an ensemble or of any search count, because earlier versions kept every search there. In
    TEST,KEY=VALUE/ those of this search count. Scores of another text or of another counting of BLEU do not.
    """
    name = name_of_test(scoring.test)
    return any(
        _are_current(folder, evaluation, scoring, {} if evaluation == name else scoring.search)
        for evaluation in list_evaluations(folder, name)
    )


def _are_current(folder: Path, evaluation: str, scoring: Scoring, search: Mapping[str, Any]) -> bool:
    try:
        scores = read_json(inside(folder, f"{evaluation}/{SCORES}"))
        is_other_text = changes_of_test(scoring.test, scores.get("data_overrides", []))
        is_this_search = all(scores["search"].get(key) == value for key, value in search.items())
        is_current = not _has_newer_weights(folder, scores.get("members"))
        return scores["unknown"] == scoring.unknown and is_this_search and not is_other_text and is_current
    except UNREADABLE:
        return False


def _has_newer_weights(folder: Path, members: Any) -> bool:
    """Return whether the scores are of other weights than best.ckpt, as far as both say which they are."""
    if not (folder / CHECKPOINTS / BEST).is_file():
        return False
    match members, read_summary(folder).get("best"):
        case [{"checkpoint": str(path), "step": int(step)}], {"checkpoint": str(best), "step": int(best_step)}:
            return Path(best).name == BEST and (Path(path).name, step) != (BEST, best_step)
    return False
