"""A trained model, opened; and checkpoints, read and written.

A checkpoint alone is enough to translate: it carries its configuration and vocabularies as plain containers, and is
loaded with `weights_only=True`. Nothing named in it is called but what nmt/config/allowed_targets.py lets be built.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra.utils
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

import nmt.config.resolvers  # noqa: F401 – stored configurations use them
from nmt.config.allowed_targets import check_references, trust
from nmt.data.candidate_lists import Candidates
from nmt.data.lexical_table import WordTable, learn
from nmt.data.parallel_text import SIDES, Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.errors import ConfigurationError, UserError, first_line
from nmt.model.translator import Translator
from nmt.runs.folder import CANDIDATES, WORD_TABLE
from nmt.system.malloc import keep_freed_memory

if TYPE_CHECKING:
    from nmt.data.datamodule import TranslationData  # and with it Lightning, which translating does not need
from nmt.runs.checkpoint_file import load_checkpoint, locate

log = logging.getLogger(__name__)


class Run:
    """A trained model, opened by its folder or by one of its checkpoints."""

    def __init__(self, path: str):
        self.folder, self.checkpoint = locate(Path(str(path)))
        stored = load_checkpoint(self.checkpoint)
        try:
            self._open(stored)
        except UserError as error:
            raise UserError(f"{self.checkpoint}: {error}") from error
        except Exception as error:  # configuration, vocabularies and weights can misfit in many ways
            reason = first_line(error)
            raise UserError(f"{self.checkpoint}: what it holds makes no model ({reason})") from error

    def _open(self, stored: Mapping[str, Any]) -> None:
        check_references(stored["nmt"]["config"])
        self.config: DictConfig = OmegaConf.create(stored["nmt"]["config"])
        self.languages = Sides(
            *(
                Language(
                    Preprocessing(**_plain(self.config.data[side])),
                    Vocabulary.from_json(stored["nmt"]["vocabularies"][side]),
                )
                for side in SIDES
            )
        )
        self.model = build_model(self.config)
        weights = {
            name.removeprefix("model."): value
            for name, value in stored["state_dict"].items()
            if name.startswith("model.")
        }
        self.model.load_state_dict(weights)
        if damaged := [name for name, value in weights.items() if value.isnan().any()]:
            raise UserError(f"{damaged[0]} holds what is no number; take another checkpoint of the run")
        self.model.eval()
        self.step = stored["global_step"]
        if not isinstance(self.step, int):
            raise UserError(f"global_step={self.step!r}: not a number of steps")

    def data(self, overrides: list[str] | None = None) -> "TranslationData":
        """The run's own data settings, changed by KEY=VALUEs."""
        return data_of(self.config, overrides)

    @property
    def is_of_candidates(self) -> bool:
        """Whether it was trained with lists of them."""
        return self.config.data.get("candidates") is not None

    def candidates(self, wanted: bool | None) -> Candidates | None:
        """Those it was trained with. `wanted`: True, False, or None for as it was trained."""
        if not (self.is_of_candidates if wanted is None else wanted):
            return None
        if not self.is_of_candidates:
            raise ConfigurationError(
                f"candidates=true: {self.folder} was trained over its whole vocabulary; leave candidates out"
            )
        if not (self.folder / CANDIDATES).is_file():
            raise UserError(
                f"{self.folder} has no {CANDIDATES}, which belongs to its checkpoints; put it there, or say "
                "candidates=false to search the whole vocabulary"
            )
        candidates = Candidates.load(self.folder / CANDIDATES)
        candidates.must_fit(Sides(*(len(one.vocabulary) for one in self.languages)), self.folder / CANDIDATES)
        return candidates

    def word_table(self, overrides: list[str] | None = None) -> WordTable:
        """The run's word-translation table; learned from its training text when it is first asked for. `overrides`:
        where that lies by now."""
        path = self.folder / WORD_TABLE
        if not path.is_file():
            log.warning("%s: learning it from the training text, once", path)
            learn(self.data(overrides).training_words()).save(path)
        return WordTable.load(path)


def build_model(config: DictConfig) -> Translator:
    """Compose the model a configuration describes."""
    keep_freed_memory()
    return _instantiated(config.model, "model")


def data_of(config: DictConfig, overrides: list[str] | None = None) -> "TranslationData":
    """What a configuration describes, changed by KEY=VALUEs."""
    OmegaConf.set_struct(config, True)
    OmegaConf.set_struct(config.data.tests, False)  # new test sets may be named
    return _instantiated(OmegaConf.merge(config, OmegaConf.from_dotlist(overrides or [])).data, "data")


def _instantiated(node: DictConfig, where: str) -> Any:
    """Resolved once, looked through, and built of that: resolved again, what computes a value could give another."""
    plain = OmegaConf.to_container(node, resolve=True)
    trust(plain, where)
    try:
        return hydra.utils.instantiate(plain)
    except InstantiationException as error:
        if "full_key: " in str(error):
            raise
        raise InstantiationException(f"{error}\nfull_key: {where}") from error.__cause__


def _plain(node: DictConfig) -> dict[str, Any]:
    return {key: value for key, value in OmegaConf.to_container(node, resolve=True).items() if key != "_target_"}
