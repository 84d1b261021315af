"""Read text files: plain, gzip or zstd, UTF-8, one sentence a line; errors name the file and the line."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError, NoFileError
from nmt.system.checksums import digest_file
from nmt.system.safe_files import check_regular

MAX_LINE_CHARACTERS = 20_000  # a longer line shows that the file does not have one sentence a line
MAX_LINE_BYTES = 8 * MAX_LINE_CHARACTERS  # read at once, because a small archive may contain a line of gigabytes
COMPRESSED_BLOCK = 2048  # bytes decompressed at once, for the same reason
ARCHIVE_ERRORS = (EOFError, OSError, ValueError, zlib.error)  # raised by a truncated or damaged archive


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, stripped.

    Only a line feed ends a line, because a Unicode line separator may stand inside a sentence.
    """
    with open_text(path) as stream:
        for number, raw in enumerate(read_raw_lines(stream, str(path)), start=1):
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}). Fix: save it as UTF-8"
                ) from None
            if len(line) > MAX_LINE_CHARACTERS:
                raise DataError(
                    f"{path}, line {number}: {len(line)} characters, the limit is {MAX_LINE_CHARACTERS}. "
                    "Fix: write one sentence a line"
                )
            yield line


def read_parallel_lines(first: Path, second: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line number from 1, line of `first`, line of `second`)."""
    for number, (one, other) in enumerate(zip_longest(read_lines(first), read_lines(second)), start=1):
        if one is None or other is None:
            shorter, longer = (first, second) if one is None else (second, first)
            raise DataError(
                f"{shorter} ends after line {number - 1}, {longer} goes on. Fix: give both the same number of lines"
            )
        yield number, one, other


def split_into_blocks(items: Iterable, size: int) -> Iterator[list]:
    """Yield lists of `size` items; the last one may be shorter."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def read_raw_lines(
    stream: BinaryIO, name: str, fix: str = "write one sentence a line; of an archive, give all of it"
) -> Iterator[bytes]:
    """Yield undecoded lines of at most `MAX_LINE_BYTES` bytes, without a byte order mark at the start.

    Args:
        stream: An open file.
        name: Its name in errors.
        fix: What errors say to do about a line that is too long, and about a damaged archive.
    """
    number, mark = 0, codecs.BOM_UTF8
    try:
        for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), start=1):
            if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raise DataError(f"{name}, line {number}: more than {MAX_LINE_BYTES} bytes. Fix: {fix}")
            yield raw.removeprefix(mark)
            mark = b""
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{name}, after line {number}: cannot be read ({error}). Fix: {fix}") from None


def open_text(path: Path) -> BinaryIO:
    """Open a file; its first bytes, not its name, show how it is compressed."""
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
        return io.BufferedReader(_ZstdReader(stream))
    return stream


class _ZstdReader(io.RawIOBase):
    """A reader of all zstd frames of a file. Unlike the library's reader, it reports a truncated last frame."""

    def __init__(self, stream: BinaryIO):
        import zstandard

        self.stream, self.zstd_error = stream, zstandard.ZstdError
        self.new_frame = zstandard.ZstdDecompressor().decompressobj
        self.frame = None
        self.content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self.content:
            compressed = (self.frame.unused_data if self.frame and self.frame.eof else b"") or self.stream.read(
                COMPRESSED_BLOCK
            )
            if not compressed:
                if self.frame and not self.frame.eof:
                    raise EOFError("it ends in the middle of its last frame")
                return 0
            if self.frame is None or self.frame.eof:
                self.frame = self.new_frame()
            try:
                self.content = memoryview(self.frame.decompress(compressed))
            except self.zstd_error as error:
                raise OSError(str(error)) from None
        size = min(len(buffer), len(self.content))
        buffer[:size], self.content = self.content[:size], self.content[size:]
        return size

    def close(self) -> None:
        self.stream.close()
        super().close()


def file_identity(path: Path) -> str:
    """Return a digest of a file's content; the name does not matter."""
    with _name_unreadable(path):
        return digest_file(path)


def check_readable(path: Path) -> None:
    """Refuse a pipe or a device."""
    with _name_unreadable(path):
        check_regular(path)


@contextmanager
def _name_unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NoFileError(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path}: cannot be read ({reason}). Fix: name a regular file, because it is read more than once"
        ) from None
