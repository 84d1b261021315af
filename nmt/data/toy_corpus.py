"""The toy language as a corpus."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from nmt.data import toy
from nmt.data.parallel_text import Line, Pairs
from nmt.data.text_files import file_identity
from nmt.data.word_alignments import Gold


class ToyPairs(Pairs):
    """The first `count` pairs of a split of the toy language that `seed` makes."""

    def __init__(self, split: str, count: int, *, seed: int = 1):
        if split not in toy.SPLITS:
            raise ValueError(f"split={split} is none of the toy language: choose {', '.join(toy.SPLITS)}")
        if not (isinstance(count, int) and count > 0):
            raise ValueError(f"count={count} must be at least 1")
        self.split, self.count, self.seed = split, count, seed

    @cached_property
    def language(self) -> toy.ToyLanguage:
        return toy.ToyLanguage(seed=self.seed)

    def identity(self) -> object:
        generator = file_identity(Path(toy.__file__))
        return {"toy": [self.split, self.count, self.seed], "generator": generator}

    def __iter__(self) -> Iterator[Line]:
        for pair in self.language.pairs(self.split, self.count):
            yield Line(" ".join(pair.source), " ".join(pair.target))

    def links(self) -> Iterator[list[tuple[int, int]]]:
        """The gold word alignment of each pair, (source position, target position) from 0."""
        return (pair.links for pair in self.language.pairs(self.split, self.count))

    def gold(self) -> list[Gold]:
        return [Gold(set(links), set(links)) for links in self.links()]
