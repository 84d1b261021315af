"""A trained model, opened; and checkpoints, read and written.

A checkpoint alone is enough to translate: it carries its configuration and vocabularies as plain containers, and is
loaded with `weights_only=True`. Nothing named in it is called but what nmt/trust.py lets be built.
"""

import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra.utils
import torch
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

import nmt.resolvers  # noqa: F401 – stored configurations use them
from nmt.allocation import keep_freed_memory
from nmt.data.candidates import Candidates
from nmt.data.language import Language, Preprocessing
from nmt.data.prepared import SIDES, Sides
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_table import WordTable, learn
from nmt.errors import CheckpointError, ConfigurationError, UserError, first_line
from nmt.folder import BEST, CANDIDATES, CHECKPOINTS, LAST, PREVIOUS, WORD_TABLE, read_summary
from nmt.model.translator import Translator
from nmt.trust import check_references, trust
from nmt.whole import whole

if TYPE_CHECKING:
    from nmt.data.module import TranslationData  # and with it Lightning, which translating does not need

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


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Plain containers and tensors; refused where anything in it is not as it was written."""
    try:
        _check(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except IsADirectoryError:
        within = path / LAST if path.name == CHECKPOINTS else path / CHECKPOINTS / LAST
        raise CheckpointError(f"{path}: is a folder; name a checkpoint, such as {within}") from None
    except Exception as error:
        reason = first_line(error)
        others = sorted(other.name for other in path.parent.glob("*.ckpt") if other != path)
        hint = f"; beside it there is {', '.join(others)}" if others else ""
        raise CheckpointError(f"{path}: cannot be loaded as a checkpoint ({reason}){hint}") from error
    if not isinstance(stored, Mapping) or "nmt" not in stored:
        raise CheckpointError(f"{path}: a checkpoint, but not of a run of this project")
    return stored


def _check(path: Path) -> None:
    """A checkpoint is a zip archive, which has a checksum for each of its parts; torch does not look at them."""
    with zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"{damaged} in it is damaged")


def save_checkpoint(stored: Mapping[str, Any], path: Path, before: Path | None = None) -> None:
    """Whole or not at all: written beside its place, out to the disk, and moved there; what was there to `before`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):  # by a process that was killed
        left.unlink(missing_ok=True)
    try:
        with whole(path) as draft:
            with draft.open("wb") as file:
                torch.save(stored, file)
                file.flush()
                os.fsync(file.fileno())
            if before is not None and path.exists():
                path.replace(before)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch's own error comes after the disk's
        if not isinstance(cause, OSError):
            raise
        raise UserError(
            f"{path}: cannot be written ({cause.strerror}); the same command goes on once it can"
        ) from error
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def locate(path: Path) -> tuple[Path, Path]:
    """A run's folder, and the checkpoint that is meant where only the folder is named."""
    if path.is_file():
        folder = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
        return folder, path
    if not path.is_dir():
        raise UserError(f"run={path}: no such folder or checkpoint")
    for name in (BEST, LAST, PREVIOUS):
        if (checkpoint := path / CHECKPOINTS / name).is_file():
            return path, checkpoint
    if read_summary(path).get("status") == "completed":
        raise UserError(
            f"run={path}: is completed, but its checkpoints are not there: put back without them, or removed"
        )
    raise UserError(
        f"run={path}: holds no checkpoints/best.ckpt or checkpoints/last.ckpt; did its training get that far?"
    )


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
