"""The DataModule: corpora, languages and batches of one experiment."""

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from pytorch_lightning import LightningDataModule

from nmt.data.batches import BatchLoader, Plan
from nmt.data.candidate_lists import Candidates, candidates_of
from nmt.data.corpus_cache import Prepared, prepare
from nmt.data.parallel_text import Pairs, Sides
from nmt.data.preprocess_pool import Workers
from nmt.data.preprocessing import Preprocessing
from nmt.errors import ConfigurationError, DataError, NoFileError, first_line

log = logging.getLogger(__name__)


class TranslationData(LightningDataModule):
    """What `conf/data` describes.

    reader(**train), reader(**valid) and reader(**tests[name]) give parallel text; `source` and `target` say how each
    side is preprocessed, `vocabulary` how words are numbered, `batches` how sentences are put together, `score` how
    translations are compared with references, `missing` what to say where files of `dir` are missing, `candidates` the
    words a softmax in training, and a search, are limited to. `name` is for the configuration's other keys.
    """

    def __init__(
        self,
        *,
        name: str,
        dir: str,
        reader: Callable[..., Pairs],
        train: Mapping,
        valid: Mapping,
        tests: Mapping[str, Mapping],
        test: str | None,
        source: Preprocessing,
        target: Preprocessing,
        vocabulary: Mapping,
        max_length: int | None,
        source_end: bool,
        batches: Plan,
        valid_batches: Plan,
        cache: str,
        seed: int,
        missing: str | None,
        score: Mapping,
        candidates: Mapping | None = None,
    ):
        super().__init__()
        self.score = dict(score)
        self.reader, self.train_files, self.valid_files = reader, train, valid
        self.tests, self.test = tests, test
        self.dir, self.missing = dir, missing
        self.preprocessing = Sides(source, target)
        self.vocabulary = dict(vocabulary)
        if max_length is not None and max_length < 1:
            raise ConfigurationError(f"data.max_length={max_length}: must be at least 1, or null for no limit")
        self.max_length, self.source_end, self.seed = max_length, source_end, seed
        self.plan, self.valid_plan = batches, valid_batches
        self.cache = Path(cache)
        self.candidates = candidates
        self.prepared: Prepared | None = None

    def prepare(self) -> Prepared:
        """Reads or makes the cache entry; safe to call from many processes at once."""
        if self.prepared is None:
            with self.told_where_to_get():
                self.prepared = prepare(
                    self.cache,
                    train=self._read("train", self.train_files),
                    valid=self._read("valid", self.valid_files),
                    tests=self._tests_at_hand(),
                    preprocessing=self.preprocessing,
                    vocabulary=self.vocabulary,
                )
            _report(self.prepared.folder)
        return self.prepared

    @contextmanager
    def told_where_to_get(self) -> Iterator[None]:
        """Around whatever reads the files: of what belongs in `dir` and is not there `missing` says where to get it."""
        try:
            yield
        except NoFileError as error:
            lacks = self.missing and Path(error.path).absolute().is_relative_to(Path(self.dir).absolute())
            raise NoFileError(error.path, self.missing if lacks else None) from None

    def candidate_lists(self) -> Candidates | None:
        """Where `candidates` asks for them; made if they are not there yet."""
        return candidates_of(self.prepare(), **self.candidates) if self.candidates else None

    def training_words(self) -> Iterator[tuple[str, str]]:
        """The training pairs as words, as the vocabularies were learned from them."""
        with self.told_where_to_get(), Workers(self.preprocessing) as workers:
            yield from map(tuple, workers.read(self._read("train", self.train_files)))

    def test_pairs(self, name: str | None = None) -> tuple[str, Pairs]:
        """A named test set, the configured one without a name; `valid` is one too."""
        name = str(name or self.test or "valid")
        if name in (".", "..") or set(name) & set("/\\\0"):  # a stored configuration must not name places to write to
            raise ConfigurationError(f"data.test={name!r}: a folder of the run is called so; use letters and figures")
        if name == "valid":
            return name, self._read("valid", self.valid_files)
        if name not in self.tests:
            raise ConfigurationError(
                f"data.test={name}: no such test set; choose one of {', '.join([*self.tests, 'valid'])}"
            )
        return name, self._read(f"tests.{name}", self.tests[name])

    def train_dataloader(self) -> BatchLoader:
        lists = self.candidate_lists()
        shuffle = not (self.trainer and self.trainer.overfit_batches)  # or each epoch's first batches would be others
        return self._loader("train", self.plan, shuffle=shuffle, sentences=self._short_enough(), candidates=lists)

    def val_dataloader(self) -> BatchLoader:
        prepared = self.prepare()
        return self._loader(
            "valid", self.valid_plan, shuffle=False, sentences=np.arange(len(prepared.split("valid")[0]))
        )

    def _loader(
        self, split: str, plan: Plan, *, shuffle: bool, sentences: np.ndarray, candidates: Candidates | None = None
    ) -> BatchLoader:
        rank, ranks = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        return BatchLoader(
            self.prepare().split(split),
            plan,
            sentences=sentences,
            seed=self.seed,
            shuffle=shuffle,
            source_end=self.source_end,
            rank=rank,
            ranks=ranks,
            candidates=candidates,
        )

    def _short_enough(self) -> np.ndarray:
        text = self.prepare().split("train")
        longer = np.maximum(text.source.lengths, text.target.lengths)
        most = np.inf if self.max_length is None else self.max_length
        kept = np.flatnonzero((longer <= most) & (longer > 0)).astype(np.int32)
        if len(kept) == 0:
            raise ConfigurationError(f"data.max_length={self.max_length}: no training pair is that short")
        if len(kept) < len(longer):
            log.info(
                "left out %d of %d training pairs longer than %s", len(longer) - len(kept), len(longer), self.max_length
            )
        return kept

    def _read(self, key: str, files: Mapping) -> Pairs:
        absent = [f"data.{key}.{name}" for name, value in files.items() if value is None]
        if absent:
            raise ConfigurationError(f"{' and '.join(absent)} must be given: the files to read")
        takes = inspect.signature(self.reader).parameters
        for name in files:
            if name not in takes:
                raise ConfigurationError(f"data.{key}.{name}: no such key; there are {', '.join(takes)}")
        if absent := [name for name, one in takes.items() if one.default is one.empty and name not in files]:
            raise ConfigurationError(f"data.{key} needs {' and '.join(absent)}")
        try:
            return self.reader(**files)
        except ValueError as error:
            raise ConfigurationError(f"data.{key}: {first_line(error)}") from error

    def _tests_at_hand(self) -> dict[str, Pairs]:
        found = {}
        for name, files in self.tests.items():
            pairs = self._read(f"tests.{name}", files)
            try:
                pairs.identity()
            except DataError:
                continue  # said clearly when that test set is asked for
            found[name] = pairs
        return found


@cache
def _report(folder: Path) -> None:
    """Once for each prepared corpus that a process opens."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    for split in ("train", "valid"):
        counts = about[split]
        log.info(
            "%s: %d pairs, unknown words %.2f %% / %.2f %%, %d blank pairs dropped",
            split,
            counts["pairs"],
            100 * counts["source_unknown_rate"],
            100 * counts["target_unknown_rate"],
            counts["blank_pairs_dropped"],
        )
    for name, reason in about.get("unread_tests", {}).items():  # entries made before this was kept have none
        log.warning("%s: could not be read, and so was not searched for in the training text: %s", name, reason)
    for name, leak in about["leaks"].items():
        if leak["source_in_train"] or leak["target_in_train"]:
            log.warning(
                "%s: of %d sentences %d sources, %d targets and %d whole pairs also stand in the training text",
                name,
                leak["sentences"],
                leak["source_in_train"],
                leak["target_in_train"],
                leak["pair_in_train"],
            )
