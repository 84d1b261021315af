"""Files of word vectors are read, and damage is named with file and line."""

import gzip
import os

import numpy as np
import pytest

from nmt.data.word_vectors import read_size, read_vectors
from nmt.errors import DataError

IDS = {"the": 4, "man": 5, "dog": 6}
ROWS = b"the 1 2.5\nman -1e-3 0\ncat 9 9\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.vec"


@pytest.mark.parametrize(
    "text",
    [ROWS, b"3 2\n" + ROWS, gzip.compress(ROWS.replace(b"\n", b" \r\n")), ROWS + b"the 7 7\n"],
    ids=["rows", "sizes first", "gzip", "a word twice"],
)
def test_vectors_are_read_with_and_without_a_first_line_of_sizes(path, text):
    path.write_bytes(text)
    assert read_size(path) == 2
    vectors = read_vectors(path, IDS, 2)
    assert {number: vector.tolist() for number, vector in vectors.items()} == {
        4: [1, 2.5],
        5: [pytest.approx(-1e-3), 0],
    }
    assert vectors[4].dtype == np.float32


def test_words_with_spaces_and_words_that_are_not_utf8_are_skipped(path):
    path.write_bytes(b". . 3 4\n\xff\xfe 3 4\n\xc2\xa0 3 4\nthe 1 2\n\n")
    assert {number: vector.tolist() for number, vector in read_vectors(path, IDS, 2).items()} == {4: [1, 2]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"man 1", "has 1 numbers after the word, not 2"),
        (b"man 1 2 3", "has more than 2 numbers after the word"),
        (b"cat", "has 0 numbers after the word, not 2"),
        (b"man 1 nan", "contains NaN, infinity or a number too large for float32"),
        (b"man 1e39 1", "contains NaN, infinity or a number too large for float32"),
        (b"man 1 x", "has a value that is not a number"),
        (b"man  1", "has a value that is not a number"),
    ],
)
def test_errors_name_the_file_and_the_line(path, row, reason):
    path.write_bytes(b"the 1 2\n" + row + b"\n")
    with pytest.raises(DataError, match=rf"some\.vec, line 2: {reason}\. Fix: download it again, or correct the line"):
        read_vectors(path, IDS, 2)


def test_a_pipe_and_a_first_line_of_huge_numbers_are_refused(path):
    os.mkfifo(path)
    with pytest.raises(DataError, match="it is a pipe or a device"):
        read_size(path)
    path.unlink()
    path.write_bytes(b"5 " + b"9" * 5000 + b"\n" + ROWS)
    with pytest.raises(DataError, match="line 2: "):
        read_vectors(path, IDS, read_size(path))


def test_files_without_vectors_are_refused(path):
    for content in (b"", b"\n\n", b"word\n", b"3 0\n", b"a line of text\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"some\.vec, line 1: is not a word and its numbers\. Fix: name word vec"):
            read_size(path)
    path.write_bytes(gzip.compress(ROWS * 1000)[:40])
    with pytest.raises(DataError, match=r"some\.vec, after line \d+: cannot be read"):
        read_vectors(path, IDS, 2)
    with pytest.raises(DataError, match="nowhere: no such file"):
        read_size(path.with_name("nowhere"))
