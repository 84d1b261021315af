"""Compare the training text with validation and test sets: leaked sentences, and swapped sides."""

from collections.abc import Iterable, Iterator

from nmt.data.parallel_text import SentencePair, Sides

SAMPLE = 100_000  # training pairs whose words are remembered, because those of a large text would fill the memory
CLEAR_DIFFERENCE = 0.2  # between two shares of known words


class LeakSearch:
    """Search the training text for held-out sentences, by side and as pairs, and for their words."""

    def __init__(self, held_out: dict[str, list[tuple[str, str]]]):
        self.held_out = held_out
        self.sources = {source for pairs in held_out.values() for source, _ in pairs}
        self.targets = {target for pairs in held_out.values() for _, target in pairs}
        self.leaked_sources: set[str] = set()
        self.leaked_targets: set[str] = set()
        self.leaked_pairs: set[tuple[str, str]] = set()
        self.training_words: Sides = Sides(set(), set())

    def watch(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield training pairs unchanged; remember the held-out sentences among them."""
        for number, pair in enumerate(pairs):
            if number < SAMPLE:
                for words, line in zip(self.training_words, pair, strict=True):
                    words.update(line.split())
            in_sources, in_targets = pair.source in self.sources, pair.target in self.targets
            if in_sources:
                self.leaked_sources.add(pair.source)
            if in_targets:
                self.leaked_targets.add(pair.target)
            if in_sources and in_targets:
                self.leaked_pairs.add((pair.source, pair.target))
            yield pair

    def counts(self) -> dict[str, dict[str, int]]:
        """Return for each held-out set how many of its sentences the training text contains."""
        return {
            name: {
                "sentences": len(pairs),
                "source_in_train": sum(source in self.leaked_sources for source, _ in pairs),
                "target_in_train": sum(target in self.leaked_targets for _, target in pairs),
                "pair_in_train": sum(pair in self.leaked_pairs for pair in pairs),
            }
            for name, pairs in self.held_out.items()
        }

    def swapped(self) -> list[str]:
        """Return the held-out sets whose words are rather on the other side of the training text."""
        return [name for name, pairs in self.held_out.items() if self._is_swapped(pairs)]

    def _is_swapped(self, pairs: list[tuple[str, str]]) -> bool:
        sides = zip(*pairs, strict=True) if pairs else ((), ())
        source, target = ({word for line in lines for word in line.split()} for lines in sides)
        of_source, of_target = self.training_words
        return all(
            len(words & opposite) - len(words & same) > CLEAR_DIFFERENCE * len(words)
            for words, same, opposite in ((source, of_source, of_target), (target, of_target, of_source))
        )
