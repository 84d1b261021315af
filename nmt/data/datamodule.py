"""The Lightning data module: the texts, vocabularies and batches of one run."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pytorch_lightning import LightningDataModule

from nmt.data.batch_plan import BatchPlan, short_sentences
from nmt.data.batches import BatchLoader
from nmt.data.candidate_lists import Candidates, load_or_learn_candidates
from nmt.data.corpus_cache import PreparedCorpus, prepare
from nmt.data.corpus_report import report_corpus
from nmt.data.given_links import GivenLinks
from nmt.data.named_files import Permission, remember
from nmt.data.parallel_text import Pairs, Sides, identify_files, list_files
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.preprocessing import Preprocessing
from nmt.data.vocabulary import TOKENIZERS, check_vocabulary, read_vocabularies
from nmt.errors import ConfigurationError, DataError, NoFileError, first_line
from nmt.system.files import cache_folder, to_path

log = logging.getLogger(__name__)

NAMES_OF_A_RUN = (  # files and folders in its folder, beside earlier.N, so that no test set has their names
    "checkpoints", "wandb", "tensorboard", "metrics.csv", "summary.json", "sweep.json", "train.log", "output.log",
    "valid_samples.json", "word_table.tsv.gz", "candidates.npz", "model.safetensors", "config.json", "README.md",
    "unusual_steps.jsonl", "multirun.yaml", *TOKENIZERS,
)  # fmt: skip


class TranslationData(LightningDataModule):
    """The data of a run; `conf/data/_pairs.yaml` describes the arguments.

    `reader` makes sentence pairs from the arguments in `train`, in `valid` and in each test set.
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
        batches: BatchPlan,
        valid_batches: BatchPlan,
        cache: str,
        seed: int,
        missing: str | None,
        score: Mapping,
        candidates: Mapping | None = None,
    ):
        super().__init__()
        self.name, self.score = name, dict(score)
        self.reader, self.tests, self.test = reader, tests, test
        self.files = {"train": train, "valid": valid} | {f"tests.{name}": files for name, files in tests.items()}
        self.dir, self.missing = dir, missing
        self.preprocessing = Sides(source, target)
        self.vocabulary = {key: value for key, value in vocabulary.items() if key != "run"}
        # here, because texts may be prepared for hours before it is used
        check_vocabulary(self.vocabulary["kind"], self.vocabulary["size"])
        self.vocabulary_run = vocabulary.get("run")
        if max_length is not None and max_length < 1:
            raise ConfigurationError(f"data.max_length={max_length}: must be at least 1, or null for no limit")
        self.max_length, self.source_end, self.seed = max_length, source_end, seed
        self.plan, self.valid_plan = batches, valid_batches
        self.cache = to_path(cache) if cache else cache_folder()  # because NMT_CACHE may be empty
        self.candidates = candidates
        self.prepared: PreparedCorpus | None = None
        self.loaded_candidates: Candidates | None = None
        self.permission: Permission | None = None  # None: the user's own settings, which may name any file
        self.links: GivenLinks | None = None  # of the training text, once they are read

    def prepare(self) -> PreparedCorpus:
        """Open the cache entry, or write it first; many processes may call this at once."""
        if self.prepared is None:
            with self.hint_at_missing_files():
                self.prepared = prepare(
                    self.cache,
                    train=self._read("train"),
                    valid=self._read("valid"),
                    tests=self._readable_tests(),
                    preprocessing=self.preprocessing,
                    vocabulary=self.vocabulary,
                    given=read_vocabularies(Path(self.vocabulary_run)) if self.vocabulary_run else None,
                )
            report_corpus(self.prepared.folder)
        return self.prepared

    @contextmanager
    def hint_at_missing_files(self) -> Iterator[None]:
        """Add the hint `missing` to errors about missing files of the folder `dir`."""
        try:
            yield
        except NoFileError as error:
            in_dir = Path(error.path).absolute().is_relative_to(to_path(self.dir).absolute())
            raise NoFileError(error.path, self.missing if in_dir else None) from None

    def candidate_lists(self) -> Candidates | None:
        """Return the candidate lists if the run has any; learn them first if they are missing."""
        if self.candidates and self.loaded_candidates is None:
            self.loaded_candidates = load_or_learn_candidates(self.prepare(), **self.candidates)
        return self.loaded_candidates

    def read_links(self) -> None:
        """Read the given links of the training text, so that its batches carry them."""
        with self.hint_at_missing_files():
            alignments = self._read("train").gold()
        if alignments is None:
            raise ConfigurationError(
                "data.train.alignments: not given, and attention.penalty follows links. "
                "Fix: data.train.alignments=FILE with a data set of files, such as data=text"
            )
        vocabularies = Sides(*(language.vocabulary for language in self.prepare().languages))
        self.links = GivenLinks.from_words(alignments, self.training_words(), vocabularies)

    def links_identity(self) -> str | list[str] | None:
        """Return the digests of the files with given links of the training text, if there are any."""
        files = self.files["train"].get("alignments")
        return identify_files(list_files("alignments", files)) if files else None

    def training_words(self) -> Iterator[tuple[str, str]]:
        """Yield the preprocessed training pairs."""
        with self.hint_at_missing_files(), PreprocessPool(self.preprocessing) as pool:
            yield from map(tuple, pool.preprocess(self._read("train")))

    def test_pairs(self, name: str | None = None) -> tuple[str, Pairs]:
        """Return the name and the pairs of a test set; `valid` is one too, and `data.test` the default."""
        name = str(name or self.test or "valid")
        # because a stored run must not name other places to write to; after a comma come settings of an evaluation
        is_taken = name in NAMES_OF_A_RUN or Path(name).stem == "earlier"
        if is_taken or name.startswith(".") or set(name) & set("/\\,") or not name.isprintable():
            raise ConfigurationError(
                f"data.test={name!r}: not a valid name for a folder of the run. Fix: use letters and digits"
            )
        if name == "valid":
            return name, self._read("valid")
        if name not in self.tests:
            raise ConfigurationError(
                f"data.test={name}: no such test set. Fix: choose {', '.join([*self.tests, 'valid'])}"
            )
        return name, self._read(f"tests.{name}")

    def texts(self) -> dict[str, Pairs]:
        """Return the readers of all texts by their keys: `train`, `valid`, and `tests.NAME` for each test set."""
        return {key: self._read(key) for key in self.files}

    def train_dataloader(self) -> BatchLoader:
        """Return the batches of the training text."""
        # overfit_batches needs a fixed order, because it trains on the first batches of each epoch
        shuffle = not (self.trainer and self.trainer.overfit_batches)
        given = {"longest": self._longest(), "candidates": self.candidate_lists(), "links": self.links}
        return self._loader("train", self.plan, shuffle=shuffle, **given)

    def val_dataloader(self) -> BatchLoader:
        """Return the batches of the validation text, in the same order in each epoch."""
        return self._loader("valid", self.valid_plan, shuffle=False)

    def _loader(self, split: str, plan: BatchPlan, **settings) -> BatchLoader:
        rank, ranks = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        settings |= {"seed": self.seed, "source_end": self.source_end, "rank": rank, "ranks": ranks}
        return BatchLoader(self.prepare().split(split), plan, **settings)

    def _longest(self) -> int | None:
        """Return `max_length`; log how many training pairs are longer."""
        text = self.prepare().split("train")
        pairs, kept = len(text.source), len(short_sentences(text, self.max_length))
        if kept == 0:
            raise ConfigurationError(f"data.max_length={self.max_length}: every training pair is longer. Fix: raise it")
        if kept < pairs:
            log.info("skipped %d of %d training pairs longer than %s", pairs - kept, pairs, self.max_length)
        return self.max_length

    def _read(self, key: str) -> Pairs:
        self._check_arguments(key)
        try:
            pairs = self.reader(**self.files[key])
        except ValueError as error:
            raise ConfigurationError(f"data.{key}: {first_line(error)}") from error
        if self.permission:
            self.permission.check(key, pairs.places())
        # without missing files, because a command that is refused for them leaves no note behind
        remember(place for place in pairs.places() if not isinstance(place, Path) or place.exists())
        return pairs

    def _check_arguments(self, key: str) -> None:
        arguments, parameters = self.files[key], inspect.signature(self.reader).parameters
        required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
        if empty := [f"data.{key}.{name}" for name in required if arguments.get(name, "") is None]:
            raise ConfigurationError(
                f"{' and '.join(empty)} must be given. Fix: {' '.join(f'{name}=FILE' for name in empty)}"
            )
        for name in arguments:
            if name not in parameters:
                raise ConfigurationError(f"data.{key}.{name}: no such key. Fix: choose {', '.join(parameters)}")
        if absent := [f"data.{key}.{name}" for name in required if name not in arguments]:
            plus = "" if key.startswith("tests.") else "+"  # because data.tests takes new keys
            raise ConfigurationError(
                f"{' and '.join(absent)} must be given. Fix: {' '.join(f'{plus}{name}=VALUE' for name in absent)}"
            )

    def _readable_tests(self) -> dict[str, Pairs]:
        readable = {}
        for name in self.tests:
            pairs = self._read(f"tests.{name}")
            try:
                pairs.identity()
            except DataError:
                continue  # because training does not need it; evaluating this test set will raise the error
            readable[name] = pairs
        return readable
