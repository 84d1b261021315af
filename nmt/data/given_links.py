"""Given links of the training text, for a penalty that makes attention follow them."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from nmt.data.parallel_text import Sides
from nmt.data.word_alignments import Gold
from nmt.errors import DataError


class GivenLinks:
    """The links of all training pairs, over the pieces that a model works with.

    Args:
        source: Positions of source pieces, of one pair after another.
        target: Positions of the target pieces that they are linked to.
        offsets: Where the links of each pair begin, and their end.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, offsets: np.ndarray):
        self.source, self.target, self.offsets = source, target, offsets

    @classmethod
    def from_words(
        cls, alignments: Iterable[Gold], pairs: Iterable[tuple[str, str]], vocabularies: Sides
    ) -> "GivenLinks":
        """Turn links of words into links of their pieces: each piece of one with each piece of the other.

        Args:
            alignments: The links of each pair; possible ones count too.
            pairs: The preprocessed training pairs, also those that have become blank.
            vocabularies: The vocabularies of both sides.
        """
        rows = []
        for number, (alignment, pair) in enumerate(zip(alignments, pairs, strict=True), start=1):
            words = Sides(*(line.split() for line in pair))
            sides = zip(vocabularies, words, strict=True)
            pieces = Sides(*(np.array(vocabulary.map_pieces_of_words(side), int) for vocabulary, side in sides))
            linked = np.zeros((len(words.source), len(words.target)), bool)
            for source, target in alignment.possible:
                if source >= len(words.source) or target >= len(words.target):
                    raise DataError(
                        f"data.train.alignments: pair {number} has the link {source}-{target} (from 0), but "
                        f"{len(words.source)} source words and {len(words.target)} target words"
                    )
                linked[source, target] = True
            if all(pair):  # because the prepared text leaves out pairs that became blank
                rows.append(np.argwhere(linked[pieces.source][:, pieces.target]).astype(np.int32))
        source, target = np.concatenate(rows).T
        return cls(source, target, np.cumsum([0, *map(len, rows)]))

    def for_batch(self, sentences: np.ndarray, targets: int, sources: int) -> Tensor:
        """Return (targets, sentences, sources): 1.0 at a link, else 0.0."""
        counts = self.offsets[sentences + 1] - self.offsets[sentences]
        places = np.repeat(np.arange(len(sentences)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.repeat(self.offsets[sentences], counts) + within
        links = torch.zeros(targets, len(sentences), sources)
        links[self.target[rows], places, self.source[rows]] = 1.0
        return links
