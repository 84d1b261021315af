"""Leakage: find sentences of the validation and test sets in the training text."""

from collections.abc import Iterable, Iterator

from nmt.data.parallel_text import SentencePair


class LeakSearch:
    """Search the training text for held-out sentences, by side and as pairs."""

    def __init__(self, held_out: dict[str, list[tuple[str, str]]]):
        self.held_out = held_out
        self.sources = {source for pairs in held_out.values() for source, _ in pairs}
        self.targets = {target for pairs in held_out.values() for _, target in pairs}
        self.leaked_sources: set[str] = set()
        self.leaked_targets: set[str] = set()
        self.leaked_pairs: set[tuple[str, str]] = set()

    def watch(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield training pairs unchanged; remember the held-out sentences among them."""
        for pair in pairs:
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
