"""The toy corpus: a reader that takes sentence pairs from the generator `toy_language`."""

from collections.abc import Iterator
from functools import cached_property

from nmt.data.named_files import Place
from nmt.data.parallel_text import Pairs, SentencePair
from nmt.data.toy_language import SPLITS, VERSION, ToyLanguage
from nmt.data.word_alignments import Gold

MAX_PAIRS = 10_000_000  # to generate more takes hours


class ToyPairs(Pairs):
    """The first `count` pairs of a split; `seed` decides the words of the language."""

    def __init__(self, split: str, count: int, *, seed: int = 1):
        if split not in SPLITS:
            raise ValueError(f"split={split}: not a split of the toy language. Fix: choose {', '.join(SPLITS)}")
        if not (isinstance(count, int) and 0 < count <= MAX_PAIRS):
            raise ValueError(f"count={count}: must be from 1 to {MAX_PAIRS}")
        self.split, self.count, self.seed = split, count, seed

    @cached_property
    def language(self) -> ToyLanguage:
        """The generator."""
        return ToyLanguage(seed=self.seed)

    def places(self) -> list[Place]:
        """Return none, because the language is generated."""
        return []

    def identity(self) -> object:
        """Return the arguments and the version of the generator."""
        return {"toy": [self.split, self.count, self.seed], "generator": VERSION}

    def __iter__(self) -> Iterator[SentencePair]:
        for pair in self.language.pairs(self.split, self.count):
            yield SentencePair(" ".join(pair.source), " ".join(pair.target))

    def gold(self) -> list[Gold]:
        """Return the gold alignment of each pair; all links are sure."""
        return [Gold(set(pair.links), set(pair.links)) for pair in self.language.pairs(self.split, self.count)]
