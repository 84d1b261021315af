"""Read pretrained word vectors in the text format of fastText, word2vec and GloVe: plain, gzip or zstd.

A line has a word and its numbers, separated by spaces. The first line may hold the number of words and the size.
Lines are bytes, because such files contain words that are not UTF-8.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nmt.data.text_files import open_text, read_raw_lines
from nmt.errors import DataError
from nmt.system.safe_files import check_regular


def read_size(path: Path) -> int:
    """Return how many numbers a vector of the file has."""
    try:
        check_regular(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}. Fix: name word vectors in text format (.vec)") from None
    _, line = next(_read_lines(path), (1, b""))
    _, *numbers = line.split(b" ")
    size = int(line.split()[1]) if _is_header(line) else len(numbers)
    if size < 1 or not all(map(_is_number, numbers)):
        raise DataError(f"{path}, line 1: is not a word and its numbers. Fix: name word vectors in text format (.vec)")
    return size


def read_vectors(path: Path, ids: Mapping[str, int], size: int) -> dict[int, np.ndarray]:
    """Return the vectors of the words in `ids` by their ids; of a word that occurs twice, the first.

    Args:
        path: The file.
        ids: The id of each word; other words of the file are skipped.
        size: How many numbers a vector must have.
    """
    ids_of_bytes = {word.encode("utf-8"): number for word, number in ids.items()}
    vectors: dict[int, np.ndarray] = {}
    for number, line in _read_lines(path):
        if number == 1 and _is_header(line):
            continue
        try:
            word, numbers = _split_line(line, size)
            if (index := ids_of_bytes.get(word)) is not None and index not in vectors:
                vectors[index] = _parse_numbers(numbers)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}. Fix: download it again, or correct the line") from None
    return vectors


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of each line that is not blank."""
    with open_text(path) as stream:
        for number, raw in enumerate(read_raw_lines(stream, str(path), "download it again"), start=1):
            if line := raw.rstrip(b" \t\r\n"):
                yield number, line


def _is_header(line: bytes) -> bool:
    fields = line.split()
    return len(fields) == 2 and all(field.isdigit() and len(field) < 12 for field in fields)


def _split_line(line: bytes, size: int) -> tuple[bytes, bytes]:
    """Return the word and its numbers; some files have words with spaces."""
    spaces_in_word = line.count(b" ") - size
    if spaces_in_word < 0:
        raise ValueError(f"has {line.count(b' ')} numbers after the word, not {size}")
    *word, numbers = line.split(b" ", spaces_in_word + 1)
    if spaces_in_word and _is_number(word[-1]):
        raise ValueError(f"has more than {size} numbers after the word")
    return b" ".join(word), numbers


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse_numbers(text: bytes) -> np.ndarray:
    try:
        vector = np.array([float(number) for number in text.split(b" ")])
    except ValueError:
        raise ValueError("has a value that is not a number") from None
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():
        raise ValueError("contains NaN, infinity or a number too large for float32")
    return vector.astype(np.float32)
