"""Split lines that are too long to be translated at once, and join the alignments of their parts."""

import re

import numpy as np

from nmt.data.vocabulary import Vocabulary

CLAUSE_ENDS = ".!?;:,。！？；：，、…"
MOSES_ESCAPE = re.compile(r"&(\w+|#\d+);$")  # such as l&apos; or &quot; whose ; ends no clause


def split_line(line: str, vocabulary: Vocabulary, max_pieces: int) -> list[str]:
    """Split a line into parts of at most `max_pieces` pieces.

    A part ends at the last sentence or clause end in its second half, if there is one. A single word of more than
    `max_pieces` pieces is a part by itself.
    """
    words = line.split()
    sizes = vocabulary.encode_flat(words)[1]
    parts, start = [], 0
    while start < len(words):
        fitting = max(1, int(np.searchsorted(np.cumsum(sizes[start:]), max_pieces, side="right")))
        end = start + fitting
        if end < len(words):
            end = _find_clause_end(words, start + (fitting + 1) // 2, end)
        parts.append(" ".join(words[start:end]))
        start = end
    return parts


def _find_clause_end(words: list[str], earliest: int, latest: int) -> int:
    """Return the last clause end from `earliest` to `latest`, or `latest` if there is none."""
    ends = [end for end in range(earliest, latest + 1) if _ends_clause(words[end - 1])]
    return ends[-1] if ends else latest


def _ends_clause(word: str) -> bool:
    return word[-1] in CLAUSE_ENDS and not MOSES_ESCAPE.search(word)


def block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    """Return a matrix with the blocks along its diagonal and zeros elsewhere."""
    rows, columns = (sum(block.shape[side] for block in blocks) for side in (0, 1))
    matrix = np.zeros((rows, columns), dtype=blocks[0].dtype)
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix
