"""Lines longer than a model should see at once are translated in parts, and put together again."""

import re

import numpy as np

from nmt.data.vocabulary import Vocabulary

ENDS_OF_PARTS = ".!?;:,。！？；：，、…"
ESCAPED = re.compile(r"&(\w+|#\d+);$")


def in_parts(line: str, vocabulary: Vocabulary, longest: int) -> list[str]:
    """Parts of at most `longest` pieces each, split where a sentence or clause ends if there is such a place in a
    part's second half. A single word of more pieces is a part of its own."""
    words = line.split()
    sizes = vocabulary.encode_flat(words)[1]
    parts, start = [], 0
    while start < len(words):
        fitting = max(1, int(np.searchsorted(np.cumsum(sizes[start:]), longest, side="right")))
        end = start + fitting
        if end < len(words):
            end = _end_of_clause(words, start + (fitting + 1) // 2, end)
        parts.append(" ".join(words[start:end]))
        start = end
    return parts


def _end_of_clause(words: list[str], earliest: int, latest: int) -> int:
    ends = [place for place in range(earliest, latest + 1) if _ends_a_part(words[place - 1])]
    return ends[-1] if ends else latest


def _ends_a_part(word: str) -> bool:
    """What Moses escapes ends with a ; of its own: l&apos; &quot;"""
    return word[-1] in ENDS_OF_PARTS and not ESCAPED.search(word)


def block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    rows, columns = (sum(block.shape[side] for block in blocks) for side in (0, 1))
    whole = np.zeros((rows, columns), dtype=blocks[0].dtype)
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole
