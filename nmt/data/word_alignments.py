"""Word alignments: read links between source and target words, from aligners and from people."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.data.text_files import read_lines, read_parallel_lines
from nmt.errors import DataError

Links = set[tuple[int, int]]  # (source position, target position), from 0
LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})", re.ASCII)


class Gold(NamedTuple):
    """The gold alignment of a sentence pair; `possible` includes the sure links."""

    sure: Links
    possible: Links


def read_pharaoh(line: str, base: int = 0) -> Links:
    """Parse links written `i-j`, whose positions count from `base`."""
    return {_parse_link(word, "-", base)[0] for word in line.split()}


def read_gold(line: str, base: int = 1) -> Gold:
    """Parse sure links written `i-j` and possible ones written `ipj`; positions count from `base`."""
    links = [_parse_link(word, "-p", base) for word in line.split()]
    return Gold({link for link, kind in links if kind == "-"}, {link for link, _ in links})


def format_gold(gold: Gold) -> str:
    """Write links as `read_gold` reads them: positions from 1, in their order."""
    return " ".join(f"{i + 1}{'-' if (i, j) in gold.sure else 'p'}{j + 1}" for i, j in sorted(gold.possible))


def read_gold_file(path: Path, base: int) -> Iterator[Gold]:
    """Yield the gold alignment of each line."""
    for number, line in enumerate(read_lines(path), start=1):
        with _name_line(path, number):
            yield read_gold(line, base)


def read_links_and_gold(links: Path, gold: Path, *, links_base: int, gold_base: int) -> Iterator[tuple[Links, Gold]]:
    """Yield an aligner's links and the gold alignment of each sentence pair, from two parallel files."""
    for number, links_line, gold_line in read_parallel_lines(links, gold):
        with _name_line(links, number):
            proposed = read_pharaoh(links_line, links_base)
        with _name_line(gold, number):
            yield proposed, read_gold(gold_line, gold_base)


@contextmanager
def _name_line(path: Path, number: int) -> Iterator[None]:
    """Put the file and the line in front of an error's message."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}, line {number}: {error}") from None


def _parse_link(word: str, kinds: str, base: int) -> tuple[tuple[int, int], str]:
    match = LINK.fullmatch(word)
    if not match or match[2] not in kinds:
        formats = " or ".join(f"i{kind}j" for kind in kinds)
        raise DataError(f"{word!r} is not a link. Fix: write {formats} with two positions")
    source, target = int(match[1]) - base, int(match[3]) - base
    if source < 0 or target < 0:
        raise DataError(f"{word!r}: positions must count from {base}")
    return (source, target), match[2]
