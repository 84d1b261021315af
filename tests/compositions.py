"""Compose models from the configuration, and list those to test; new YAML files are included automatically."""

from copy import deepcopy
from functools import cache
from itertools import combinations, product

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from nmt.config.installation import CONF_DIR
from nmt.model.translator import Translator
from nmt.runs.trained_model import build_model

SOURCE_WORDS, TARGET_WORDS = 19, 23


def configured(*overrides: str) -> DictConfig:
    return deepcopy(_configured(overrides))


@cache
def _configured(overrides: tuple[str, ...]) -> DictConfig:
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        return compose("config", overrides=["size=tiny", *overrides])


def composed(*overrides: str, target_words: int = TARGET_WORDS) -> Translator:
    """Build a tiny model in evaluation mode."""
    config = configured(*overrides)
    config.model.source_vocabulary_size, config.model.target_vocabulary_size = SOURCE_WORDS, target_words
    return build_model(config).eval()


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF_DIR / group).glob("[!_]*.yaml"))


def recipes() -> list[str]:
    folder = CONF_DIR / "experiment"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/[!_]*.yaml"))


def compositions() -> list[tuple[str, ...]]:
    """List models with every pair of decoder, attention, memory and encoder, and of attention's parts if not refused.

    All of them are valid with the sizes of `tiny`. Penalties only read the trace, so each has a model of its own.
    """
    cells = _products("decoder/cell", "decoder/context_gate")
    # luong has no choice of cell
    cells += [pair for pair in _products("decoder", "decoder/cell") if "decoder=luong" not in pair]
    penalties = [("attention=coverage_fertility", *penalty) for penalty in _products("attention/penalty")]
    whole = cover_pairs("attention", "decoder", "memory", "encoder")
    return [*whole, *cells, *cover_pairs(*attention_groups()), *penalties]


def cover_pairs(*groups: str) -> list[tuple[str, ...]]:
    """List models in which every pair occurs that is not refused; a part joins a model if this adds pairs."""
    pairs = [pair for two in combinations(groups, 2) for pair in _products(*two) if not is_refused(pair)]
    waiting, models = dict.fromkeys(tuple(sorted(pair)) for pair in pairs), []
    while waiting:
        model = next(iter(waiting))
        for group in groups:
            if not any(choice.startswith(f"{group}=") for choice in model):
                longer = [tuple(sorted((*model, *choice))) for choice in _products(group)]
                fitting = [model, *(one for one in longer if not any(map(is_refused, combinations(one, 2))))]
                model = max(fitting, key=lambda one: len(waiting.keys() & combinations(one, 2)))
        for pair in combinations(model, 2):
            waiting.pop(pair, None)
        models.append(model)
    return models


def attention_groups() -> list[str]:
    """List the groups of parts that change what a model computes."""
    names = sorted(path.name for path in (CONF_DIR / "attention").iterdir() if path.is_dir())
    return [f"attention/{name}" for name in names if name != "penalty"]


def is_refused(pair: tuple[str, ...]) -> bool:
    """Return whether a pair of parts is refused: `exponential` needs energies of at most 0."""
    others = [choice for choice in pair if choice != "attention/weights=exponential"]
    return len(others) < len(pair) and others[0] not in ("attention/score=location", "attention/score=none")


def _products(*groups: str) -> list[tuple[str, ...]]:
    return list(product(*([f"{group}={choice}" for choice in choices(group)] for group in groups)))
