"""Parallel text: pairs of sentences, read from two files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.data.text_files import file_identity, in_step, read_lines
from nmt.data.word_alignments import Gold, read_gold_file
from nmt.errors import DataError

OfLine = TypeVar("OfLine")


class Line(NamedTuple):
    source: str
    target: str


class Pairs:
    """Parallel text: it can be read any number of times. What a reader need not have, has a default."""

    blank = 0  # pairs dropped in the last pass

    def __iter__(self) -> Iterator[Line]:
        raise NotImplementedError

    def identity(self) -> object:
        """What tells this content from any other."""
        raise NotImplementedError

    def further_references(self) -> list[list[str]]:
        """Other translations of a test set's sources, a list of lines each."""
        return []

    def gold(self) -> list[Gold] | None:
        """A test set's alignments, made by hand or by its generator."""
        return None


class FilePairs(Pairs):
    """Two files whose lines belong together. `empty_side`: is a pair with one blank side an error, or dropped?

    `alignments`: a file of links made by hand, a line a pair, `i-j` sure and `ipj` possible, counted from
    `alignments_base`. `references`: files of further translations of each source line, for test sets.
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
            raise DataError(f"data.reader.empty_side={empty_side}: choose error or drop")
        self.source, self.target, self.empty_side = Path(source), Path(target), empty_side
        self.alignments, self.alignments_base = alignments, alignments_base
        self.references = [Path(file) for file in ([references] if isinstance(references, str) else references)]

    def identity(self) -> object:
        return {"files": [file_identity(self.source), file_identity(self.target)], "empty_side": self.empty_side}

    def __iter__(self) -> Iterator[Line]:
        self.blank = 0
        number = 0
        for number, source, target in in_step(self.source, self.target):
            if source and target:
                yield Line(source, target)
            elif source or target:
                self._empty(number, self.target if source else self.source)
            else:
                self.blank += 1
        if number == 0:
            raise DataError(f"{self.source} and {self.target} are empty: nothing to read")

    def further_references(self) -> list[list[str]]:
        return [self._of_pairs(list(read_lines(file)), file, "a reference") for file in self.references]

    def gold(self) -> list[Gold] | None:
        if not self.alignments:
            return None
        file = Path(self.alignments)
        return self._of_pairs(list(read_gold_file(file, self.alignments_base)), file, "its own links")

    def _of_pairs(self, lines: list[OfLine], file: Path, needed: str) -> list[OfLine]:
        """What a file says of each line → of the pairs there are."""
        kept = [bool(source and target) for _, source, target in in_step(self.source, self.target)]
        if len(lines) != len(kept):
            raise DataError(f"{file} has {len(lines)} lines, {self.target} {len(kept)}: each line needs {needed}")
        return [line for line, keeps in zip(lines, kept, strict=True) if keeps]

    def _empty(self, number: int, file: Path) -> None:
        if self.empty_side == "error":
            raise DataError(
                f"{file}, line {number}: empty, but its other side is not; mend the line, or drop such pairs with "
                "data.reader.empty_side=drop"
            )
        self.blank += 1


SIDES = ("source", "target")


class Sides(NamedTuple):
    """Anything that exists once for each side."""

    source: object
    target: object
