"""Parallel text: sentence pairs, and the readers that yield them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.data.named_files import Place
from nmt.data.text_files import check_readable, file_identity, read_lines, read_parallel_lines
from nmt.data.word_alignments import Gold, read_gold_file
from nmt.errors import DataError
from nmt.system.files import to_path

LineContent = TypeVar("LineContent")
SIDES = ("source", "target")


class Sides(NamedTuple):
    """One value for the source side and one for the target side."""

    source: object
    target: object


class SentencePair(NamedTuple):
    """A source sentence and its translation."""

    source: str
    target: str


class Pairs:
    """Sentence pairs that can be read any number of times: the interface of every reader."""

    blank = 0  # blank pairs skipped in the last pass
    alignments_words = "text"  # the words that the gold alignments count; see `FilePairs`

    def __iter__(self) -> Iterator[SentencePair]:
        raise NotImplementedError

    def identity(self) -> object:
        """Return a JSON value that changes when the content changes."""
        raise NotImplementedError

    def places(self) -> list[Place]:
        """Return the files, and the names or addresses of data sets, that it reads."""
        raise NotImplementedError

    def file_versions(self) -> list[tuple[int, ...]]:
        """Return a value for each file with text, which changes when the file is written or replaced."""
        return []

    def further_references(self) -> list[list[str]]:
        """Return further translations of the target side: for each of them a list with a line a pair."""
        return []

    def gold(self) -> list[Gold] | None:
        """Return the gold word alignment of each pair, if there is one."""
        return None

    def kept_lines(self) -> Iterator[bool]:
        """Yield for each line of the text whether `__iter__` yields it."""
        return (True for _ in self)


class FilePairs(Pairs):
    """Sentence pairs of two files: line i of one is the translation of line i of the other.

    Each argument may be a list of files, which are read in order as one corpus.

    Args:
        source: The file of source sentences.
        target: The file of target sentences; of several files, one for each source file.
        empty_side: What to do with a pair of which one side is blank: `error` or `drop`.
        count: Only so many first lines are read; None: all.
        alignments: A file of gold links, a line a pair: `i-j` is sure, `ipj` possible.
        alignments_base: The first position in `alignments`: 0 or 1.
        alignments_words: The words that the links of a test set count: `text`, between the blanks of the text, or
            `preprocessed`, those that the model sees. Links of the training text always count the latter.
        references: Files of further translations, each with a line for every pair, for validation and test sets.
    """

    def __init__(
        self,
        source: str | Sequence[str],
        target: str | Sequence[str],
        *,
        empty_side: str = "error",
        count: int | None = None,
        alignments: str | Sequence[str] | None = None,
        alignments_base: int = 1,
        alignments_words: str = "text",
        references: str | Sequence[str] = (),
    ):
        if empty_side not in ("error", "drop"):
            raise DataError(f"data.reader.empty_side={empty_side}: unknown value. Fix: choose error or drop")
        if alignments_words not in ("text", "preprocessed"):
            raise ValueError(f"alignments_words={alignments_words}: unknown value. Fix: choose text or preprocessed")
        if count is not None and not (isinstance(count, int) and count > 0):
            raise ValueError(f"count={count}: must be at least 1")
        self.source, self.target = list_files("source", source), list_files("target", target)
        _check_partners(self.source, self.target)
        self.empty_side, self.count, self.alignments_base = empty_side, count, alignments_base
        self.alignments = list_files("alignments", alignments) if alignments else []
        self.alignments_words = alignments_words
        self.references = list_files("references", references) if references else []

    def places(self) -> list[Place]:
        """Return all its files."""
        return [*self.source, *self.target, *self.references, *self.alignments]

    def identity(self) -> object:
        """Return the digests of all files with text."""
        files = [identify_files(self.source), identify_files(self.target)]
        identity: dict[str, object] = {"files": files, "empty_side": self.empty_side}
        if self.count is not None:
            identity["count"] = self.count
        if self.references:
            identity["references"] = [file_identity(file) for file in self.references]
        return identity

    def file_versions(self) -> list[tuple[int, ...]]:
        """Return size and times of the last changes of each file with text that is there."""
        files = [file.stat() for file in (*self.source, *self.target, *self.references) if file.exists()]
        return [(file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files]

    def __iter__(self) -> Iterator[SentencePair]:
        self.blank = 0
        for files, number, source, target in self._read_lines():
            if source and target:
                yield SentencePair(source, target)
            elif (source or target) and self.empty_side == "error":
                raise DataError(
                    f"{files.target if source else files.source}, line {number}: empty, but the other side is not. "
                    "Fix: correct the line, or skip such pairs with data.reader.empty_side=drop"
                )
            else:
                self.blank += 1

    def _read_lines(self) -> Iterator[tuple[Sides, int, str, str]]:
        """Yield the files, the line number and the line of each side, of all files."""
        for file in (*self.source, *self.target):
            check_readable(file)
        pairs = map(Sides, self.source, self.target)
        return islice(chain.from_iterable(map(_read_pair_of_files, pairs)), self.count)

    def kept_lines(self) -> Iterator[bool]:
        """Yield for each line of the text whether it has words on both sides."""
        return (bool(source and target) for _, _, source, target in self._read_lines())

    def further_references(self) -> list[list[str]]:
        """Read the files of further translations."""
        return [self._read_beside([file], read_lines, "translation") for file in self.references]

    def gold(self) -> list[Gold] | None:
        """Read the files of gold links."""
        if not self.alignments:
            return None
        return self._read_beside(
            self.alignments, lambda file: read_gold_file(file, self.alignments_base), "list of links"
        )

    def _read_beside(
        self, files: list[Path], read: Callable[[Path], Iterable[LineContent]], content: str
    ) -> list[LineContent]:
        """Read files with a line for each pair, and keep the lines of the pairs that `__iter__` yields."""
        for file in files:
            check_readable(file)
        lines = list(islice(chain.from_iterable(map(read, files)), self.count))
        kept = list(self.kept_lines())
        if len(lines) != len(kept):
            names, targets = (" + ".join(map(str, paths)) for paths in (files, self.target))
            raise DataError(
                f"{names} has {len(lines)} lines, {targets} {len(kept)}. Fix: write one {content} for each line"
            )
        return [line for line, keep in zip(lines, kept, strict=True) if keep]


def list_files(key: str, files: str | Sequence[str]) -> list[Path]:
    """Return the files that a key names: one, or a list of them."""
    listed = [files] if isinstance(files, str) else files
    if not (isinstance(listed, list | tuple) and listed and all(isinstance(file, str) and file for file in listed)):
        raise ValueError(f"{key}={files}: must be a file, or a list of files. Fix: {key}=FILE or '{key}=[FILE,FILE]'")
    return [to_path(file) for file in listed]


def identify_files(files: Sequence[Path]) -> str | list[str]:
    """Return the digest of a file, or the list of digests of several files."""
    digests = [file_identity(file) for file in files]
    return digests[0] if len(digests) == 1 else digests


def _check_partners(sources: list[Path], targets: list[Path]) -> None:
    """Refuse a file without a partner on the other side."""
    if len(sources) != len(targets):
        shorter, longer = sorted((sources, targets), key=len)
        raise ValueError(
            f"{longer[len(shorter)]}: has no partner among {len(sources)} source and {len(targets)} target files. "
            "Fix: name as many target files as source files"
        )


def _read_pair_of_files(files: Sides) -> Iterator[tuple[Sides, int, str, str]]:
    number = 0
    for number, source, target in read_parallel_lines(*files):
        yield files, number, source, target
    if number == 0:
        raise DataError(f"{files.source} and {files.target} are empty. Fix: name files with text")
