"""Parallel text: sentence pairs, and the readers that yield them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.data.named_files import Place
from nmt.data.text_files import file_identity, read_lines, read_parallel_lines
from nmt.data.word_alignments import Gold, read_gold_file
from nmt.errors import DataError

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

    def __iter__(self) -> Iterator[SentencePair]:
        raise NotImplementedError

    def identity(self) -> object:
        """Return a JSON value that changes when the content changes."""
        raise NotImplementedError

    def places(self) -> list[Place]:
        """Return the files, and the names or addresses of data sets, that it reads."""
        raise NotImplementedError

    def further_references(self) -> list[list[str]]:
        """Return further translations of the target side: for each of them a list with a line a pair."""
        return []

    def gold(self) -> list[Gold] | None:
        """Return the gold word alignment of each pair, if there is one."""
        return None


class FilePairs(Pairs):
    """Sentence pairs of two files: line i of one is the translation of line i of the other.

    Args:
        source: The file of source sentences.
        target: The file of target sentences.
        empty_side: What to do with a pair of which one side is blank: `error` or `drop`.
        alignments: A file of gold links, a line a pair: `i-j` is sure, `ipj` possible.
        alignments_base: The first position in `alignments`: 0 or 1.
        references: Files of further translations, a line a pair, for validation and test sets.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        empty_side: str = "error",
        alignments: str | None = None,
        alignments_base: int = 1,
        references: str | Sequence[str] = (),
    ):
        if empty_side not in ("error", "drop"):
            raise DataError(f"data.reader.empty_side={empty_side}: unknown value. Fix: choose error or drop")
        self.source, self.target, self.empty_side = Path(source), Path(target), empty_side
        self.alignments, self.alignments_base = alignments, alignments_base
        self.references = [Path(file) for file in ([references] if isinstance(references, str) else references)]

    def places(self) -> list[Place]:
        """Return all its files."""
        return [self.source, self.target, *self.references, *([Path(self.alignments)] if self.alignments else [])]

    def identity(self) -> object:
        """Return the digests of all files with text."""
        files = {"files": [file_identity(self.source), file_identity(self.target)], "empty_side": self.empty_side}
        return files | ({"references": [file_identity(file) for file in self.references]} if self.references else {})

    def __iter__(self) -> Iterator[SentencePair]:
        self.blank = 0
        number = 0
        for number, source, target in read_parallel_lines(self.source, self.target):
            if source and target:
                yield SentencePair(source, target)
            elif (source or target) and self.empty_side == "error":
                raise DataError(
                    f"{self.target if source else self.source}, line {number}: empty, but the other side is not. "
                    "Fix: correct the line, or skip such pairs with data.reader.empty_side=drop"
                )
            else:
                self.blank += 1
        if number == 0:
            raise DataError(f"{self.source} and {self.target} are empty. Fix: name files with text")

    def further_references(self) -> list[list[str]]:
        """Read the files of further translations."""
        return [self._drop_blank_pairs(list(read_lines(file)), file, "translation") for file in self.references]

    def gold(self) -> list[Gold] | None:
        """Read the file of gold links."""
        if not self.alignments:
            return None
        file = Path(self.alignments)
        return self._drop_blank_pairs(list(read_gold_file(file, self.alignments_base)), file, "list of links")

    def _drop_blank_pairs(self, lines: list[LineContent], file: Path, content: str) -> list[LineContent]:
        """Keep the lines of pairs that `__iter__` yields."""
        kept = [bool(source and target) for _, source, target in read_parallel_lines(self.source, self.target)]
        if len(lines) != len(kept):
            raise DataError(
                f"{file} has {len(lines)} lines, {self.target} {len(kept)}. Fix: write one {content} for each line"
            )
        return [line for line, keep in zip(lines, kept, strict=True) if keep]
