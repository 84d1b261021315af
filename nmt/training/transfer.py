"""Start from the weights of another run: each weight is moved by its name, or is named as fresh."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import Tensor, nn

from nmt.data.parallel_text import SIDES, Sides
from nmt.errors import ConfigurationError, UserError, did_you_mean, list_first
from nmt.runs.trained_model import TrainedRun

log = logging.getLogger(__name__)


class Transfer(NamedTuple):
    """Names of the parameters and buffers that were moved, and of the others, which keep their initial values."""

    transferred: list[str]
    fresh: list[str]


def initialize_from(
    path: str, model: nn.Module, languages: Sides, fresh: Sequence[str], user_dir: str | None
) -> dict[str, object]:
    """Give `model` the weights of a run with the same vocabularies; return what the run's summary says of it."""
    try:
        run = TrainedRun(path, user_dir)
    except UserError as error:
        raise UserError("init_from=" + f"{error}".removeprefix("run=")) from error
    for side, ours, theirs in zip(SIDES, languages, run.languages, strict=True):
        if ours.vocabulary.to_json() != theirs.vocabulary.to_json():
            raise ConfigurationError(
                f"init_from={path}: its {side} vocabulary is another. Fix: data.vocabulary.run={path}, which is the "
                "default, or train both on the same data with the same data.vocabulary"
            )
    moved = transfer(run.model.state_dict(), model, fresh, origin=f"init_from={path}")
    log.info("%d weights of %s; fresh: %s", len(moved.transferred), run.checkpoint, ", ".join(moved.fresh) or "none")
    return {"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} | moved._asdict()


def transfer(weights: Mapping[str, Tensor], model: nn.Module, fresh: Sequence[str], *, origin: str) -> Transfer:
    """Copy weights into a model by their names.

    The model keeps its initial values for all names that match a pattern of `fresh`, such as `decoder.memory.*`.
    Messages name the other run by `origin`, a setting.
    """
    state = model.state_dict()
    check_names(weights, state, fresh, origin)
    new = _find_fresh(state, fresh)
    _check_tied(weights, model, new, origin)
    moved = {name: weights[name] for name in state if name not in new}
    model.load_state_dict(moved, strict=False)
    return Transfer(list(moved), new)


def check_fresh(fresh: Sequence[str], model: nn.Module) -> None:
    """Refuse patterns of `fresh` that match no weight of the model, all of them, or one of two names of a weight."""
    names = list(model.state_dict())
    if unused := [pattern for pattern in fresh if not _find_fresh(names, [pattern])]:
        hint = did_you_mean(unused[0], names)
        raise ConfigurationError(f"fresh={unused}: this model has no such parameter{hint}; it has {list_first(names)}")
    new = _find_fresh(names, fresh)
    if len(new) == len(names):
        raise ConfigurationError(f"fresh={list(fresh)}: leaves nothing to take from the other run")
    for tied in _list_tied(model):
        if 0 < len(set(tied) & set(new)) < len(tied):
            raise ConfigurationError(
                f"fresh={list(fresh)}: {' and '.join(tied)} are one parameter here. Fix: name all of them, or none"
            )


def _find_fresh(names: Iterable[str], fresh: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in fresh)]


def check_names(weights: Mapping[str, Tensor], state: Mapping[str, Tensor], fresh: Sequence[str], origin: str) -> None:
    """Refuse a weight that has no place in the model, or another size, and a place without a weight."""
    new = _find_fresh(state, fresh)
    missing = [name for name in state if name not in weights and name not in new]
    left_over = [name for name in weights if name not in state]
    other_sizes = [
        f"{name} {tuple(weights[name].shape)} there, {tuple(state[name].shape)} here"
        for name in state
        if name in weights and name not in new and weights[name].shape != state[name].shape
    ]
    if missing:
        raise ConfigurationError(
            f"{origin}: lacks {list_first(missing)}. Fix: name them in fresh=[…] to keep their initial values"
        )
    if left_over:
        raise ConfigurationError(f"{origin}: has {list_first(left_over)}, for which this model has no place")
    if other_sizes:
        raise ConfigurationError(f"{origin}: is of another size: {list_first(other_sizes)}")


def _list_tied(model: nn.Module) -> list[list[str]]:
    """Return the names of each parameter that has several."""
    names_of: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names_of.setdefault(id(parameter), []).append(name)
    return [names for names in names_of.values() if len(names) > 1]


def _check_tied(weights: Mapping[str, Tensor], model: nn.Module, new: list[str], origin: str) -> None:
    """Refuse to take one parameter of this model from two of the other."""
    for names in _list_tied(model):
        if names[0] not in new and not all(weights[names[0]].equal(weights[name]) for name in names):
            raise ConfigurationError(
                f"{origin}: {' and '.join(names)} are one parameter here, and differ there. Fix: tie them there too "
                "(model.tie_embeddings), or name them in fresh=[…]"
            )
