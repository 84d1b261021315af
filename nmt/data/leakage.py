"""Find sentences of the validation and test sets in the training text."""

from collections.abc import Iterable, Iterator

from nmt.data.parallel_text import Line


class LeakSearch:
    """Which held-out sentences also stand in the training text, by side and as pairs."""

    def __init__(self, held_out: dict[str, list[tuple[str, str]]]):
        self.held_out = held_out
        everything = [pair for pairs in held_out.values() for pair in pairs]
        self.sought = [{source for source, _ in everything}, {target for _, target in everything}, set(everything)]
        self.seen: list[set] = [set(), set(), set()]

    def watch(self, lines: Iterable[Line]) -> Iterator[Line]:
        for line in lines:
            in_source, in_target = line.source in self.sought[0], line.target in self.sought[1]
            if in_source:
                self.seen[0].add(line.source)
            if in_target:
                self.seen[1].add(line.target)
                if in_source:
                    self.seen[2].add(tuple(line))
            yield line

    def found(self) -> dict[str, dict[str, int]]:
        sources, targets, pairs = self.seen
        return {
            name: {
                "sentences": len(held),
                "source_in_train": sum(source in sources for source, _ in held),
                "target_in_train": sum(target in targets for _, target in held),
                "pair_in_train": sum(pair in pairs for pair in held),
            }
            for name, held in self.held_out.items()
        }
