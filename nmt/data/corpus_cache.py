"""Corpora prepared once: preprocessed, turned into numbers, and kept as memory-mapped arrays under a cache.

A cache entry is named by everything that decides its content. It is written beside its place and renamed into it, under
a lock: of several processes that need it at once one prepares it, the others wait, and none sees half of it.
Memory does not grow with the corpus: text streams through in blocks.
"""

import hashlib
import importlib.metadata
import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from nmt.data.leakage import LeakSearch
from nmt.data.parallel_text import SIDES, Line, Pairs, Sides
from nmt.data.preprocess_pool import BLOCK, Workers
from nmt.data.preprocessing import Language
from nmt.data.text_files import in_blocks
from nmt.data.vocabulary import UNKNOWN, Vocabulary
from nmt.errors import ConfigurationError, DataError
from nmt.system.files import writable
from nmt.system.locks import alone

log = logging.getLogger(__name__)


FORMAT = 3  # of the cache entries: raise it when their content changes


class EncodedText:
    """Sentences of one side as one long array and the offsets at which each begins."""

    def __init__(self, numbers: np.ndarray, offsets: np.ndarray):
        self.numbers, self.offsets = numbers, offsets

    @classmethod
    def open(cls, folder: Path, name: str) -> "EncodedText":
        """Memory-mapped."""
        return cls(_memory_map(folder / f"{name}.numbers"), np.load(folder / f"{name}.offsets.npy"))

    @classmethod
    def of_lines(cls, vocabulary: Vocabulary, lines: list[str]) -> "EncodedText":
        numbers, lengths = vocabulary.encode_flat(lines)
        return cls(numbers, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.numbers[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets).astype(np.int32)  # of millions of sentences


class Prepared:
    """A cache entry, open for reading."""

    def __init__(self, folder: Path, preprocessing: Sides):
        self.folder = folder
        self.about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.languages = Sides(
            *(
                Language(getattr(preprocessing, side), Vocabulary.load(folder / f"{side}.tokenizer.json"))
                for side in SIDES
            )
        )

    @property
    def content(self) -> str:
        """Of the texts that a run learns from and chooses by."""
        told = {split: self.about["settings"][split] for split in ("train", "valid")}
        return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def decisive(self) -> dict[str, object]:
        """All that a model learns from it depends on: not the test sets, which are only searched for leaks."""
        return {key: value for key, value in self.about["settings"].items() if key != "tests"}

    def split(self, name: str) -> Sides:
        return Sides(*(EncodedText.open(self.folder, f"{name}.{side}") for side in SIDES))

    def words(self, name: str, side: str) -> list[str]:
        """The lines of a split as the vocabularies see them."""
        return _read_lines(self.folder / f"{name}.{side}.words")


def prepare(
    cache: Path,
    *,
    train: Pairs,
    valid: Pairs,
    tests: dict[str, Pairs],
    preprocessing: Sides,
    vocabulary: dict,
) -> Prepared:
    """The cache entry for these corpora and settings, made if it is not there yet. `tests` are searched for leaks."""
    settings = {
        "format": FORMAT,
        "libraries": {name: importlib.metadata.version(name) for name in ("tokenizers", "sacremoses")},
        "train": train.identity(),
        "valid": valid.identity(),
        "tests": {name: pairs.identity() for name, pairs in sorted(tests.items())},
        "preprocessing": [
            {key: value for key, value in asdict(side).items() if value is not None} for side in preprocessing
        ],
        "vocabulary": vocabulary,
    }
    key = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=10).hexdigest()
    folder = cache / key
    if not folder.exists():
        writable(cache, f"data.cache={cache}", "; data.cache=FOLDER, or NMT_CACHE in the environment, names another")
        held = f"another process prepares these texts in {folder}; waiting for it"
        with alone(cache / f"{key}.lock", held=held):
            if not folder.exists():
                _make(folder, settings, train, valid, tests, preprocessing, vocabulary)
    return Prepared(folder, preprocessing)


def _make(
    folder: Path,
    settings: dict,
    train: Pairs,
    valid: Pairs,
    tests: dict[str, Pairs],
    preprocessing: Sides,
    vocabulary: dict,
) -> None:
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # left by a process that was killed
    draft.mkdir()
    try:
        with Workers(preprocessing) as workers:
            about = {"valid": _write_words(draft, "valid", workers.read(valid))}
            readable, about["unread_tests"] = _read_tests(workers, tests)
            leaks = LeakSearch({"valid": _pairs_of_words(draft, "valid")} | readable)
            about["train"] = _write_words(draft, "train", leaks.watch(workers.read(train)))
            about["leaks"] = leaks.found()
        for split, pairs in (("train", train), ("valid", valid)):
            about[split]["blank_pairs_dropped"] += pairs.blank
            if not about[split]["pairs"]:
                raise DataError(f"data.{split}: nothing is left after preprocessing")
        _learn_vocabularies(draft, vocabulary)
        for side in SIDES:
            language = Vocabulary.load(draft / f"{side}.tokenizer.json")
            for split in ("train", "valid"):
                about[split][f"{side}_unknown_rate"] = _write_numbers(draft, f"{split}.{side}", language)
            (draft / f"train.{side}.words").unlink()
        text = json.dumps({"settings": settings} | about, indent=2, ensure_ascii=False)
        (draft / "about.json").write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    draft.rename(folder)


def _read_tests(workers: "Workers", tests: dict[str, Pairs]) -> tuple[dict[str, list[tuple[str, str]]], dict[str, str]]:
    """Their words; and why others cannot be read, for which training need not wait."""
    found, unread = {}, {}
    for name, pairs in tests.items():
        try:
            found[name] = [tuple(line) for line in workers.read(pairs)]
        except (DataError, ConfigurationError) as error:
            unread[name] = str(error)
    return found, unread


def _write_words(folder: Path, split: str, lines: Iterable[Line]) -> dict[str, int]:
    written = blank = 0
    names = [f"{split}.{side}.words" for side in SIDES]
    with ExitStack() as opened:
        files = [opened.enter_context(open(folder / name, "w", encoding="utf-8", newline="\n")) for name in names]
        for line in lines:
            if not (line.source and line.target):
                blank += 1
                continue
            written += 1
            for file, text in zip(files, line, strict=True):
                file.write(text + "\n")
    return {"pairs": written, "blank_pairs_dropped": blank}


def _pairs_of_words(folder: Path, split: str) -> list[tuple[str, str]]:
    return list(zip(*(_read_lines(folder / f"{split}.{side}.words") for side in SIDES), strict=True))


def _read_lines(path: Path) -> list[str]:
    """Split at line feeds only, as they were put together."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def _learn_vocabularies(folder: Path, settings: dict) -> None:
    settings = dict(settings)
    joint = settings.pop("joint")
    files = [folder / f"train.{side}.words" for side in SIDES]
    for side, texts in zip(SIDES, (files, files) if joint else ([files[0]], [files[1]]), strict=True):
        path = folder / f"{side}.tokenizer.json"
        if joint and side == "target":
            shutil.copyfile(folder / "source.tokenizer.json", path)
        else:
            path.write_text(Vocabulary.learn(LineBlocks(texts), **settings).to_json(), encoding="utf-8")


@dataclass(frozen=True)
class LineBlocks:
    """Of files, one after another; can be read any number of times."""

    files: list[Path]

    def __iter__(self) -> Iterator[list[str]]:
        for file in self.files:
            with open(file, encoding="utf-8", newline="\n") as stream:
                for block in in_blocks(stream, BLOCK):
                    yield [line[:-1] for line in block]


def _write_numbers(folder: Path, name: str, vocabulary: Vocabulary) -> float:
    """Returns the share of unknown words."""
    offsets, unknown, position = [np.zeros(1, dtype=np.int64)], 0, 0
    with open(folder / f"{name}.numbers", "wb") as stream:
        for block in LineBlocks([folder / f"{name}.words"]):
            numbers, lengths = vocabulary.encode_flat(block)
            numbers.tofile(stream)
            offsets.append(position + np.cumsum(lengths))
            position += len(numbers)
            unknown += int((numbers == UNKNOWN).sum())
    np.save(folder / f"{name}.offsets.npy", np.concatenate(offsets))
    return unknown / max(1, position)


def _memory_map(path: Path) -> np.ndarray:
    return np.memmap(path, dtype=np.int32, mode="r") if path.stat().st_size else np.zeros(0, dtype=np.int32)
