"""Models as the configuration composes them, and every composition there is: new YAML files are found by themselves."""

from functools import cache
from itertools import product
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from omegaconf import DictConfig

from nmt.errors import ConfigurationError
from nmt.model.translator import Translator
from nmt.run import build_model

ROOT = Path(__file__).parent.parent
SOURCE_WORDS, TARGET_WORDS = 19, 23


def configured(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("config", overrides=["size=tiny", *overrides])


def composed(*overrides: str, target_words: int = TARGET_WORDS) -> Translator:
    """A tiny model in evaluation mode."""
    config = configured(*overrides)
    config.model.source_vocabulary_size, config.model.target_vocabulary_size = SOURCE_WORDS, target_words
    return build_model(config).eval()


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml") if not path.stem.startswith("_"))


@cache
def legal_compositions() -> list[tuple[str, ...]]:
    """Every decoder × attention × memory, and every encoder × decoder; those refused at construction left out."""
    inner = product(
        *([f"{group}={choice}" for choice in choices(group)] for group in ("decoder", "attention", "memory"))
    )
    outer = product(*([f"{group}={choice}" for choice in choices(group)] for group in ("encoder", "decoder")))
    return [composition for composition in [*inner, *outer] if not is_refused(*composition)]


def is_refused(*overrides: str) -> bool:
    try:
        composed(*overrides)
    except InstantiationException as error:
        if isinstance(error.__cause__, ConfigurationError):
            return True
        raise
    return False
