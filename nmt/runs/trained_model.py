"""Open a trained model from its run's folder or from a checkpoint.

A stored configuration may name only what nmt/config/allowed_targets.py allows; nothing else is called.
"""

import copy
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra.utils
from omegaconf import DictConfig, OmegaConf

import nmt.config.resolvers  # noqa: F401, because stored configurations use them
from nmt.config.allowed_targets import check_references, check_targets, walk
from nmt.config.explain import find_explanation
from nmt.config.overrides import read_dotlist, read_leaves
from nmt.config.schema import check_rates, check_section, find_misfit, load_defaults
from nmt.config.user_dir import add_user_dir
from nmt.data.candidate_lists import Candidates
from nmt.data.lexical_table import LexicalTable, learn_lexical_table
from nmt.data.named_files import Permission
from nmt.data.parallel_text import SIDES, Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.errors import ConfigurationError, DataError, UserError, first_line
from nmt.model.translator import Translator
from nmt.runs.checkpoint_file import load_checkpoint, locate_checkpoint
from nmt.runs.earlier_versions import update_settings
from nmt.runs.folder import BEST, CANDIDATES, WORD_TABLE
from nmt.system.files import to_path

if TYPE_CHECKING:
    from nmt.data.datamodule import TranslationData  # imports Lightning, which translating does not need

log = logging.getLogger(__name__)

NO_INITIALIZATION = "nmt.model.initialization.NoInitialization"
FIX = "trust=true, if you trust the run; or type the file yourself: data.tests.NAME.source=FILE"


class TrainedRun:
    """A run with its trained model, its languages and its settings.

    Args:
        path: the folder of the run, one of its checkpoints, the folder of a shared model, or hf:OWNER/NAME.
        user_dir: the folder of the user's classes, as the command names it; what the run has stored does not count.
        trust: True to read any file that its settings name.
    """

    def __init__(self, path: str, user_dir: str | None = None, *, trust: bool = False):
        self.user_dir, self.trust = None if user_dir is None else add_user_dir(user_dir), trust
        self.folder, self.checkpoint = locate_checkpoint(Path(str(path)))
        is_folder = not to_path(str(path)).is_file()
        self.default_checkpoint = self.checkpoint.name if is_folder else BEST  # opened when only the folder is given
        content = load_checkpoint(self.checkpoint)
        try:
            self._open(content)
        except UserError as error:
            raise UserError(f"{self.checkpoint}: {error}") from error
        except Exception as error:  # because configuration, vocabularies and weights can mismatch in many ways
            reason = find_explanation(error) or first_line(error)
            raise UserError(
                f"{self.checkpoint}: configuration, vocabularies and weights do not match ({reason})"
            ) from error

    def _open(self, content: Mapping[str, Any]) -> None:
        record = content["nmt"]
        config = update_settings(record["config"])
        check_references(config)
        check_rates({key: config[key] for key in ("dropout", "model") if key in config})
        self.config: DictConfig = OmegaConf.create(config)
        self.search = self._read_search()
        self.unknown = str(record["config"].get("score_unknown") or "keep")  # treatment of unknown words in evaluations
        self.languages = Sides(*(self._language(side, record["vocabularies"][side]) for side in SIDES))
        self._check_vocabulary_sizes()
        self.model = self._build_uninitialized()
        weights = {
            name.removeprefix("model."): value
            for name, value in content["state_dict"].items()
            if name.startswith("model.")
        }
        self.model.load_state_dict(weights)
        if damaged := [name for name, value in weights.items() if not value.isfinite().all()]:
            raise UserError(f"{damaged[0]} contains NaN or infinity. Fix: take another checkpoint of the run")
        self.model.eval()
        self.step = content["global_step"]
        if not isinstance(self.step, int):
            raise UserError(f"global_step={self.step!r}: is not a number of steps")

    def _build_uninitialized(self) -> Translator:
        """Build the model without initial values, because to draw them takes longer than to read the weights."""
        config = copy.deepcopy(self.config)
        if "initialization" in config.model:
            config.model.initialization = {"_target_": NO_INITIALIZATION}
        return build_model(config, self.user_dir, self.folder)

    def _check_vocabulary_sizes(self) -> None:
        for side, language in zip(SIDES, self.languages, strict=True):
            size, words = self.config.model[f"{side}_vocabulary_size"], len(language.vocabulary)
            if size != words:
                raise UserError(f"its {side} vocabulary has {words} entries, and its model is for {size}")

    def _read_search(self) -> dict[str, Any]:
        """Return the search that the run's settings name; empty for a run from before they named one."""
        stored = self.config.get("search") or {}
        check_section("search", stored, OmegaConf.merge(load_defaults("search"), {"_target_": None}))
        search = {str(key): value for key, value in stored.items() if key != "_target_" and value is not None}
        check_targets(search, "search")
        return search

    def _language(self, side: str, vocabulary: str) -> Language:
        settings = OmegaConf.to_container(self.config.data[side], resolve=True)
        settings.pop("_target_", None)
        return Language(Preprocessing(**settings), Vocabulary.from_json(vocabulary))

    def data(self, overrides: Sequence[str] = ()) -> "TranslationData":
        """Return the data that the run was trained on, with KEY=VALUE overrides applied."""
        data = build_data(self.config, overrides, self.user_dir, self.folder)
        if not self.trust:
            typed = walk(OmegaConf.to_container(read_dotlist(overrides)).get("data", {}), "data")
            data.permission = Permission(self.folder, {key: str(value) for key, value in typed}, FIX)
        return data

    @property
    def has_candidates(self) -> bool:
        """True if the run was trained with candidate lists."""
        return self.config.data.get("candidates") is not None

    def candidates(self, use: bool | None) -> Candidates | None:
        """Return the run's candidate lists, or None to search the whole vocabulary.

        Args:
            use: whether to use them; None: as in training.
        """
        if not (self.has_candidates if use is None else use):
            return None
        if not self.has_candidates:
            raise ConfigurationError(
                f"candidates=true: {self.folder} was trained over its whole vocabulary. Fix: leave candidates out"
            )
        path = self.folder / CANDIDATES
        if not path.is_file():
            raise UserError(
                f"{self.folder} has no {CANDIDATES}, which belongs to its checkpoints. Fix: put it there, or give "
                "candidates=false to search the whole vocabulary"
            )
        try:
            candidates = Candidates.load(path)
        except DataError as error:
            raise DataError(f"{error}. Fix: search without the lists (candidates=false)") from None
        candidates.check_vocabulary_sizes(Sides(*(len(language.vocabulary) for language in self.languages)), path)
        return candidates

    def word_table(self, overrides: Sequence[str] = ()) -> LexicalTable:
        """Return the run's word-translation table, learned from its training text the first time.

        Args:
            overrides: KEY=VALUEs with the place of that text now.
        """
        path = self.folder / WORD_TABLE
        if not path.is_file():
            log.warning("%s: learning it from the training text, once", path)
            learn_lexical_table(self.data(overrides).training_words()).save(path)
        return LexicalTable.load(path)


def with_vocabulary_sizes(config: DictConfig, source: int, target: int) -> DictConfig:
    """Return a copy of the settings with the vocabulary sizes, which only the data know."""
    sized = copy.deepcopy(config)
    sized.model.source_vocabulary_size, sized.model.target_vocabulary_size = source, target
    return sized


def build_model(config: DictConfig, user_dir: str | Path | None = None, run: Path | None = None) -> Translator:
    """Build the model that a configuration describes; `run` is the folder of the run that has stored it."""
    return _instantiate(config.model, "model", user_dir, run)


def build_data(
    config: DictConfig,
    overrides: Sequence[str] = (),
    user_dir: str | Path | None = None,
    run: Path | None = None,
) -> "TranslationData":
    """Build the data that a configuration describes, with KEY=VALUE overrides applied."""
    config = copy.deepcopy(config)
    OmegaConf.set_struct(config, True)
    OmegaConf.set_struct(config.data.tests, False)  # because new test sets may be named
    for key, value in read_leaves(overrides).items():
        default = OmegaConf.select(config, key, throw_on_resolution_failure=False)
        if default is not None and (problem := find_misfit(key, value, default)):
            raise ConfigurationError(problem)
    return _instantiate(OmegaConf.merge(config, read_dotlist(overrides)).data, "data", user_dir, run)


def _instantiate(node: DictConfig, place: str, user_dir: str | Path | None, run: Path | None) -> Any:
    """Resolve a part of a configuration once, check what it names, and build it from the checked values."""
    plain = OmegaConf.to_container(node, resolve=True)
    check_targets(plain, place, user_dir, run)
    # below a parent, because Hydra's errors then name the full key
    return hydra.utils.instantiate(OmegaConf.create({place: plain})[place])
