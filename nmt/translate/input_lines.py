"""Read the lines to translate, and the prefixes of their translations."""

import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from nmt.data.text_files import open_text, read_raw_lines
from nmt.errors import DataError


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield stripped lines; bytes that are not UTF-8 are replaced and reported, because no line may be lost."""
    for number, raw in enumerate(read_raw_lines(stream, name), start=1):
        line = raw.decode("utf-8", errors="replace").strip()
        if "\ufffd" in line and b"\xef\xbf\xbd" not in raw:
            print(f"{name}, line {number}: not UTF-8; the invalid bytes are read as \ufffd", file=sys.stderr)
        yield line


def add_prefixes(lines: Iterator[str], name: str, prefixes: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield each line with its line of the file `prefixes`, or with None if there is no such file."""
    if prefixes is None:
        yield from ((line, None) for line in lines)
        return
    for line, prefix in zip_longest(lines, decode_lines(open_text(Path(str(prefixes))), str(prefixes))):
        if line is None or prefix is None:
            shorter = name if line is None else prefixes
            raise DataError(
                f"prefixes={prefixes}: {shorter} has fewer lines. Fix: give each line its prefix, which may be empty"
            )
        yield line, prefix
