"""Reading parallel text: plain, gzip or zstd files, UTF-8, one sentence a line; defects are named by file and line."""

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nmt.errors import DataError, NoFileError

if TYPE_CHECKING:
    pass


LONGEST_LINE = 20_000  # characters; beyond it a file is hardly one sentence a line


MOST_BYTES = 8 * LONGEST_LINE  # of a line, read at once: a packed file of a few kilobytes may hold a line of gigabytes


PACKED = 2048  # bytes unpacked at once, for the same reason


DAMAGE = (EOFError, OSError, ValueError, zlib.error)  # what a cut or damaged archive raises


def in_step(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """Lines of two files that belong together, numbered from 1."""
    for number, (one, other) in enumerate(zip_longest(read_lines(first), read_lines(second)), start=1):
        if one is None or other is None:
            shorter, longer = (first, second) if one is None else (second, first)
            raise DataError(
                f"{shorter} ends after line {number - 1}, {longer} goes on: they must have the same number of lines"
            )
        yield number, one, other


def in_blocks(items: Iterable, size: int) -> Iterator[list]:
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def read_lines(path: Path) -> Iterator[str]:
    """Stripped lines, split at line feeds only (a line separator inside a sentence is not a new sentence)."""
    with open_text(path) as stream:
        for number, raw in enumerate(lines_of(stream, str(path)), start=1):
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
            if len(line) > LONGEST_LINE:
                raise DataError(
                    f"{path}, line {number}: {len(line)} characters; one sentence a line is expected, at most "
                    f"{LONGEST_LINE} characters"
                )
            yield line


def lines_of(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """As they stand there; where that ends badly, the name and the line are told."""
    number = 0
    try:
        for raw in raw_lines(stream):
            number += 1
            yield raw
    except TooLongError as error:
        raise DataError(f"{name}, line {number + 1}: {error}; one sentence a line is expected") from None
    except DAMAGE as error:
        raise DataError(f"{name}, after line {number}: cannot be read ({error})") from None


class TooLongError(Exception):
    """A line that is not read to its end."""


def raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Without the mark that some editors put before the first, which would be taken for a word."""
    mark = codecs.BOM_UTF8
    for raw in iter(partial(stream.readline, MOST_BYTES), b""):
        if len(raw) == MOST_BYTES and not raw.endswith(b"\n"):
            raise TooLongError(f"more than {MOST_BYTES} bytes")
        yield raw.removeprefix(mark)
        mark = b""


def open_text(path: Path) -> BinaryIO:
    """Open by what the file is, not by its name."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 – handed on
    except FileNotFoundError:
        raise NoFileError(path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened ({getattr(error, 'strerror', None) or error})") from None
    magic = stream.peek(4)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(stream)
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(_Zstandard(stream))
    return stream


class _Zstandard(io.RawIOBase):
    """All frames of a file, one after another; unlike the library's own reader it tells where the last was cut off."""

    def __init__(self, stream: BinaryIO):
        import zstandard

        self.stream, self.error = stream, zstandard.ZstdError
        self.new = zstandard.ZstdDecompressor().decompressobj
        self.frame = None
        self.unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self.unpacked:
            packed = (self.frame.unused_data if self.frame and self.frame.eof else b"") or self.stream.read(PACKED)
            if not packed:
                if self.frame and not self.frame.eof:
                    raise EOFError("it ends in the middle of its last frame")
                return 0
            if self.frame is None or self.frame.eof:
                self.frame = self.new()
            try:
                self.unpacked = memoryview(self.frame.decompress(packed))
            except self.error as error:
                raise OSError(str(error)) from None
        size = min(len(buffer), len(self.unpacked))
        buffer[:size], self.unpacked = self.unpacked[:size], self.unpacked[size:]
        return size

    def close(self) -> None:
        self.stream.close()
        super().close()


def file_identity(path: Path) -> str:
    """A digest of a file's content, whatever its name."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        raise NoFileError(path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None
