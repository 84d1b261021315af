"""The corpus cache: preprocessed and encoded corpora, as memory-mapped arrays.

The name of a cache entry is a hash of all settings and texts that decide its content. A process writes the entry as a
draft and renames it, under a lock. So one of several processes prepares it, the others wait, and none sees half of it.
An entry holds the checksums of its files. Each opening compares them, and a damaged entry is prepared again.
Text streams through in blocks, so memory does not grow with the corpus.
"""

import hashlib
import importlib.metadata
import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nmt.data.leakage import LeakSearch
from nmt.data.parallel_text import SIDES, Pairs, SentencePair, Sides
from nmt.data.preprocess_pool import BLOCK, PreprocessPool
from nmt.data.preprocessing import Language
from nmt.data.text_files import split_into_blocks
from nmt.data.vocabulary import UNKNOWN, Vocabulary
from nmt.errors import ConfigurationError, DataError
from nmt.system.checksums import find_damage, write_checksums
from nmt.system.files import check_writable, sync
from nmt.system.locks import lock_file

log = logging.getLogger(__name__)

FIX = "Fix: data.cache=FOLDER, or set NMT_CACHE in the environment"
FORMAT = 4  # of the cache entries; raise it when their content changes


class EncodedText:
    """The word ids of many sentences in one array, and the offset at which each sentence begins."""

    def __init__(self, ids: np.ndarray, offsets: np.ndarray):
        self.ids, self.offsets = ids, offsets

    @classmethod
    def open(cls, folder: Path, name: str) -> "EncodedText":
        """Memory-map arrays on disk."""
        return cls(_memory_map(folder / f"{name}.numbers"), np.load(folder / f"{name}.offsets.npy", mmap_mode="r"))

    @classmethod
    def from_lines(cls, vocabulary: Vocabulary, lines: list[str]) -> "EncodedText":
        """Encode preprocessed lines."""
        ids, lengths = vocabulary.encode_flat(lines)
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, sentences: np.ndarray) -> np.ndarray:
        """Return the number of word ids of each of these sentences."""
        return self.offsets[sentences + 1] - self.offsets[sentences]


class PreparedCorpus:
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
    def text_digest(self) -> str:
        """A digest of the training and validation texts."""
        texts = {split: self.about["settings"][split] for split in ("train", "valid")}
        return hashlib.blake2b(json.dumps(texts, sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def training_identity(self) -> dict[str, object]:
        """Everything that decides what a model learns: all settings but the test sets."""
        return {key: value for key, value in self.about["settings"].items() if key != "tests"}

    def split(self, name: str) -> Sides:
        """Open the encoded text of `train` or `valid`."""
        return Sides(*(EncodedText.open(self.folder, f"{name}.{side}") for side in SIDES))

    def words(self, name: str, side: str) -> list[str]:
        """Return the preprocessed lines of one side of a split."""
        return _read_lines(self.folder / f"{name}.{side}.words")

    def valid_references(self) -> list[list[str]]:
        """Return the preprocessed translations of the validation text: its target side, then further references."""
        count = self.about["valid"]["further_references"]
        further = [_read_lines(self.folder / f"valid.reference_{number}.words") for number in range(count)]
        return [self.words("valid", "target"), *further]


def prepare(
    cache: Path,
    *,
    train: Pairs,
    valid: Pairs,
    tests: dict[str, Pairs],
    preprocessing: Sides,
    vocabulary: dict,
    given: tuple[Vocabulary, Vocabulary] | None = None,
) -> PreparedCorpus:
    """Open the cache entry of these texts and settings; write it first if it is missing.

    `preprocessing` is a `Preprocessing` for each side. The sentences of `tests` are searched for in the training text.
    Vocabularies that are `given` are used in place of learned ones.
    """
    versions = _find_versions(train, valid, tests)
    settings = {
        "format": FORMAT,
        "libraries": {name: importlib.metadata.version(name) for name in ("tokenizers", "sacremoses")},
        **_identify(train, valid, tests),
        "preprocessing": [
            {key: value for key, value in asdict(side).items() if value is not None} for side in preprocessing
        ],
        "vocabulary": [_digest(side.to_json()) for side in given] if given else vocabulary,
    }
    key = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=10).hexdigest()
    folder = cache / key
    # all checksums are compared, because that is cheap: the ids are smaller than the texts, which each start digests
    if find_damage(folder):
        check_writable(cache, f"data.cache={cache}", f". {FIX}")
        cache.mkdir(parents=True, exist_ok=True)
        message = f"another process prepares these texts in {folder}; waiting for it"
        with lock_file(cache / f"{key}.lock", message=message):
            if damage := find_damage(folder):  # another process may have written it meanwhile
                if folder.exists():
                    log.warning("%s: %s, so this entry of the corpus cache is prepared again", folder, damage)
                try:
                    _write_entry(folder, settings, versions, train, valid, tests, preprocessing, vocabulary, given)
                except PermissionError as error:  # of a draft or a damaged entry of another user
                    raise ConfigurationError(
                        f"data.cache={cache}: {error.filename} belongs to another user. {FIX}"
                    ) from error
    return PreparedCorpus(folder, preprocessing)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def _identify(train: Pairs, valid: Pairs, tests: dict[str, Pairs]) -> dict[str, object]:
    return {
        "train": train.identity(),
        "valid": valid.identity(),
        "tests": {name: pairs.identity() for name, pairs in sorted(tests.items())},
    }


def _find_versions(train: Pairs, valid: Pairs, tests: dict[str, Pairs]) -> dict[str, object]:
    """Return values that change when a file is written or replaced, even if its former content comes back."""
    texts = {"train": [train], "valid": [valid], "tests": tests.values()}
    return {split: [pairs.file_versions() for pairs in several] for split, several in texts.items()}


def _write_entry(
    folder: Path,
    settings: dict,
    versions: dict,
    train: Pairs,
    valid: Pairs,
    tests: dict[str, Pairs],
    preprocessing: Sides,
    vocabulary: dict,
    given: tuple[Vocabulary, Vocabulary] | None,
) -> None:
    draft = folder.with_name(f"{folder.name}.draft")
    if draft.exists():  # because a killed process may have left one
        shutil.rmtree(draft)
    draft.mkdir()
    try:
        with PreprocessPool(preprocessing) as pool:
            about = {"valid": _write_words(draft, "valid", pool.preprocess(valid))}
            about["valid"]["further_references"] = _write_references(draft, valid, pool)
            readable, about["unread_tests"] = _read_tests(pool, tests)
            valid_lines = (_read_lines(draft / f"valid.{side}.words") for side in SIDES)
            leaks = LeakSearch({"valid": list(zip(*valid_lines, strict=True))} | readable)
            about["train"] = _write_words(draft, "train", leaks.watch(pool.preprocess(train)))
            about |= {"leaks": leaks.counts(), "swapped": leaks.swapped()}
        versions_now = _find_versions(train, valid, tests)
        for split, identity in _identify(train, valid, tests).items():
            # or the entry would hold texts that its name does not stand for
            if identity != settings[split] or versions_now[split] != versions[split]:
                raise DataError(
                    f"data.{split}: a file was replaced while it was prepared. Fix: give the same command again"
                )
        for split, pairs in (("train", train), ("valid", valid)):
            about[split]["blank_pairs_dropped"] += pairs.blank
            if not about[split]["pairs"]:
                raise DataError(f"data.{split}: preprocessing leaves no sentence pair. Fix: name files with text")
        for side, tokenizer in zip(SIDES, given or _learn_vocabularies(draft, vocabulary), strict=True):
            path = draft / f"{side}.tokenizer.json"
            path.write_text(tokenizer.to_json(), encoding="utf-8")
            learned = Vocabulary.load(path)
            about.setdefault("vocabulary_sizes", {})[side] = len(learned)
            for split in ("train", "valid"):
                pieces, unknown = _write_ids(draft, f"{split}.{side}", learned)
                about[split] |= {f"{side}_pieces": pieces, f"{side}_unknown_rate": unknown / max(1, pieces)}
            (draft / f"train.{side}.words").unlink()
        text = json.dumps({"settings": settings} | about, indent=2, ensure_ascii=False)
        (draft / "about.json").write_text(text, encoding="utf-8")
        write_checksums(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if folder.exists():  # a damaged entry
        shutil.rmtree(folder)
    draft.rename(folder)
    sync(folder.parent)


def _read_tests(
    pool: PreprocessPool, tests: dict[str, Pairs]
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, str]]:
    """Return the preprocessed test sets, and the errors of those that cannot be read: training does not need them."""
    texts, errors = {}, {}
    for name, pairs in tests.items():
        try:
            texts[name] = [tuple(pair) for pair in pool.preprocess(pairs)]
        except (DataError, ConfigurationError) as error:
            errors[name] = str(error)
    return texts, errors


def _write_words(folder: Path, split: str, pairs: Iterable[SentencePair]) -> dict[str, int]:
    written = blank = copies = 0
    names = [f"{split}.{side}.words" for side in SIDES]
    with ExitStack() as stack:
        files = [stack.enter_context(open(folder / name, "w", encoding="utf-8", newline="\n")) for name in names]
        for pair in pairs:
            if not (pair.source and pair.target):
                blank += 1
                continue
            written += 1
            copies += _squeeze(pair.source) == _squeeze(pair.target)
            for file, text in zip(files, pair, strict=True):
                file.write(text + "\n")
    return {"pairs": written, "blank_pairs_dropped": blank, "copies": copies}


def _squeeze(line: str) -> str:
    """Undo what the preprocessing of one side alone may have changed: case, and spaces between words."""
    return line.replace(" ", "").lower()


def _write_references(folder: Path, valid: Pairs, pool: PreprocessPool) -> int:
    """Write the further references of the pairs that `_write_words` wrote; return the number of their files."""
    further = valid.further_references()
    kept = [bool(pair.source and pair.target) for pair in pool.preprocess(valid)] if further else []
    for number, lines in enumerate(further):
        words = [pool.preprocessing.target(line) for line, keep in zip(lines, kept, strict=True) if keep]
        text = "".join(f"{line}\n" for line in words)
        (folder / f"valid.reference_{number}.words").write_bytes(text.encode("utf-8"))
    return len(further)


def _read_lines(path: Path) -> list[str]:
    """Split at line feeds only, because a sentence may contain other line separators."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def _learn_vocabularies(folder: Path, settings: dict) -> tuple[Vocabulary, Vocabulary]:
    settings = dict(settings)
    joint = settings.pop("joint")
    files = [folder / f"train.{side}.words" for side in SIDES]
    texts = [files] if joint else [[file] for file in files]
    learned = [Vocabulary.learn(LineBlocks(text), **settings) for text in texts]
    return learned[0], learned[-1]


@dataclass(frozen=True)
class LineBlocks:
    """The lines of several files in blocks; can be read any number of times."""

    files: list[Path]

    def __iter__(self) -> Iterator[list[str]]:
        for file in self.files:
            with open(file, encoding="utf-8", newline="\n") as stream:
                for block in split_into_blocks(stream, BLOCK):
                    yield [line[:-1] for line in block]


def _write_ids(folder: Path, name: str, vocabulary: Vocabulary) -> tuple[int, int]:
    """Encode a text into an array on disk; return how many ids it has, and how many of them are unknown words."""
    offsets, unknown, position = [np.zeros(1, dtype=np.int64)], 0, 0
    with open(folder / f"{name}.numbers", "wb") as stream:
        for block in LineBlocks([folder / f"{name}.words"]):
            ids, lengths = vocabulary.encode_flat(block)
            ids.tofile(stream)
            offsets.append(position + np.cumsum(lengths))
            position += len(ids)
            unknown += int((ids == UNKNOWN).sum())
    np.save(folder / f"{name}.offsets.npy", np.concatenate(offsets))
    return position, unknown


def _memory_map(path: Path) -> np.ndarray:
    # np.memmap refuses an empty file
    return np.memmap(path, dtype=np.int32, mode="r") if path.stat().st_size else np.zeros(0, dtype=np.int32)
