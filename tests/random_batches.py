"""Build batches of random words."""

import numpy as np

from nmt.data.batches import Batch, collate
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import SPECIAL

FIRST_WORD = len(SPECIAL)


def text_of(rows: list[list[int]]) -> EncodedText:
    lengths = [len(row) for row in rows]
    return EncodedText(np.concatenate(rows).astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]))


def random_rows(lengths: list[int], words: int, seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(FIRST_WORD, words, length).tolist() for length in lengths]


def batch_of(sources: list[list[int]], targets: list[list[int]], **settings) -> Batch:
    return collate(Sides(text_of(sources), text_of(targets)), np.arange(len(sources)), **settings)
