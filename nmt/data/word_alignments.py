"""Links between words, as aligners write them and people make them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.data.text_files import in_step, read_lines
from nmt.errors import DataError

Links = set[tuple[int, int]]  # (source position, target position), from 0
LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})", re.ASCII)


class Gold(NamedTuple):
    """`possible` holds the sure links too."""

    sure: Links
    possible: Links


def read_pharaoh(line: str, base: int = 0) -> Links:
    """Links written `i-j`, whose positions count from `base`."""
    return {_link(word, "-", base)[0] for word in line.split()}


def read_gold(line: str, base: int = 1) -> Gold:
    """Links written `i-j` where they are sure, `ipj` where they are only possible; positions count from `base`."""
    links = [_link(word, "-p", base) for word in line.split()]
    return Gold({link for link, kind in links if kind == "-"}, {link for link, _ in links})


def read_gold_file(path: Path, base: int) -> Iterator[Gold]:
    for number, line in enumerate(read_lines(path), start=1):
        with _naming(path, number):
            yield read_gold(line, base)


def read_links_beside_gold(links: Path, gold: Path, *, links_base: int, gold_base: int) -> Iterator[tuple[Links, Gold]]:
    """Of two files, one line a sentence in both."""
    for number, found, known in in_step(links, gold):
        with _naming(links, number):
            proposed = read_pharaoh(found, links_base)
        with _naming(gold, number):
            yield proposed, read_gold(known, gold_base)


@contextmanager
def _naming(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}, line {number}: {error}") from None


def _link(word: str, kinds: str, base: int) -> tuple[tuple[int, int], str]:
    match = LINK.fullmatch(word)
    if not match or match[2] not in kinds:
        allowed = " or ".join(f"i{kind}j" for kind in kinds)
        raise DataError(f"{word!r} is not a link; write {allowed} with two positions")
    source, target = int(match[1]) - base, int(match[3]) - base
    if source < 0 or target < 0:
        raise DataError(f"{word!r}: positions must count from {base}")
    return (source, target), match[2]
