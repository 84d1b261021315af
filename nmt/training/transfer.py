"""Weights of another run, moved by name: what is pretrained, what is fresh, and nothing in between."""

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import Tensor, nn

from nmt.data.parallel_text import SIDES, Sides
from nmt.errors import ConfigurationError, UserError
from nmt.runs.trained_model import Run

log = logging.getLogger(__name__)


class Transfer(NamedTuple):
    """Names of parameters (and stored buffers)."""

    transferred: list[str]
    fresh: list[str]


def initialize_from(path: str, model: nn.Module, languages: Sides, fresh: Sequence[str]) -> dict[str, object]:
    """Gives `model` the weights of a run with the same vocabularies; what a run's summary should say of it."""
    try:
        run = Run(path)
    except UserError as error:
        raise UserError(f"init_from: {error}") from error
    for side, ours, theirs in zip(SIDES, languages, run.languages, strict=True):
        if ours.vocabulary.to_json() != theirs.vocabulary.to_json():
            raise ConfigurationError(
                f"init_from={path}: its {side} vocabulary is another; train both on the same data with the same "
                "data.vocabulary"
            )
    moved = transfer(run.model.state_dict(), model, fresh, origin=f"init_from={path}")
    log.info("%d weights of %s; fresh: %s", len(moved.transferred), run.checkpoint, ", ".join(moved.fresh) or "none")
    return {"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} | moved._asdict()


def transfer(weights: Mapping[str, Tensor], model: nn.Module, fresh: Sequence[str], *, origin: str) -> Transfer:
    """Every weight finds its place by name, or is an error. Those of `model` that match a pattern of `fresh` keep what
    they were initialised with; a pattern that matches none is an error too."""
    own = model.state_dict()
    new = [name for name in own if any(fnmatchcase(name, pattern) for pattern in fresh)]
    idle = [pattern for pattern in fresh if not any(fnmatchcase(name, pattern) for name in own)]
    missing = [name for name in own if name not in weights and name not in new]
    left_over = [name for name in weights if name not in own]
    misfits = [
        f"{name} {tuple(weights[name].shape)} there, {tuple(own[name].shape)} here"
        for name in own
        if name in weights and name not in new and weights[name].shape != own[name].shape
    ]
    if idle:
        raise ConfigurationError(f"fresh={idle}: this model has no parameter of that name; it has {_some(own)}")
    if missing:
        raise ConfigurationError(f"{origin} lacks {_some(missing)}: name them in fresh=[…] if they are to start anew")
    if left_over:
        raise ConfigurationError(f"{origin} has {_some(left_over)}, for which this model has no place")
    if misfits:
        raise ConfigurationError(f"{origin} is of another size: {_some(misfits)}")
    for names in _tied(model):
        if 0 < len(set(names) & set(new)) < len(names):
            raise ConfigurationError(
                f"fresh={list(fresh)}: {' and '.join(names)} are one here; name all of them, or none"
            )
        if names[0] not in new and not all(weights[names[0]].equal(weights[name]) for name in names):
            raise ConfigurationError(
                f"{origin}: {' and '.join(names)} are one here, and differ there; tie them there too "
                "(model.tie_embeddings), or name them in fresh=[…]"
            )
    moved = {name: weights[name] for name in own if name not in new}
    if not moved:
        raise ConfigurationError(f"{origin}: fresh={list(fresh)} leaves nothing to take from it")
    model.load_state_dict(moved, strict=False)
    return Transfer(list(moved), new)


def _tied(model: nn.Module) -> list[list[str]]:
    """Names of parameters that have several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [of_one for of_one in names.values() if len(of_one) > 1]


def _some(names: Sequence[str], most: int = 4) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
