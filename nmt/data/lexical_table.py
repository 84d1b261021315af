"""The lexical table: translations of source words, learned from the links of an aligner."""

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nmt.data.aligner import link_pairs
from nmt.data.text_files import open_text, read_raw_lines
from nmt.errors import DataError
from nmt.system.files import atomic_write

MAX_TRANSLATIONS = 1000  # of a word in a file, because each is compared with all before it
FIX = "remove the file; it is learned again"


class LexicalTable:
    """The translations of source words with their probabilities, the most probable first."""

    def __init__(self, entries: dict[str, list[tuple[str, float]]]):
        self.entries = entries

    def translations(self, word: str) -> list[tuple[str, float]]:
        """Return (translation, probability), the most probable first; nothing for an unknown word."""
        return self.entries.get(word, [])

    def best(self, word: str) -> str | None:
        """Return the most probable translation, or None for an unknown word."""
        return self.entries[word][0][0] if word in self.entries else None

    def save(self, path: Path) -> None:
        """Write tab-separated lines of source, target and probability, gzipped; equal tables give equal bytes."""
        with (
            atomic_write(path) as draft,
            draft.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream,
        ):
            for source, translations in sorted(self.entries.items()):
                for target, probability in translations:
                    stream.write(f"{source}\t{target}\t{probability:.5g}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "LexicalTable":
        """Read a file that `save` wrote; an error names the line."""
        entries: dict[str, list[tuple[str, float]]] = {}
        with open_text(path) as stream:
            for number, line in enumerate(read_raw_lines(stream, str(path), FIX), start=1):
                try:
                    _add_row(entries, line.decode("utf-8"))
                except ValueError as error:
                    raise DataError(f"{path}, line {number}: {error}. Fix: {FIX}") from None
        return cls(entries)


def learn_lexical_table(
    pairs: Iterable[tuple[str, str]], *, keep: int = 10, minimum_probability: float = 0.01
) -> LexicalTable:
    """Learn the most probable translations of each source word.

    The probability of a translation is its share of all links of the source word.

    Args:
        pairs: Sentence pairs, their words separated by single spaces.
        keep: How many translations of a word are kept.
        minimum_probability: Less probable translations are dropped.
    """
    counts: dict[str, Counter] = {}
    for source, target, links in link_pairs(pairs):
        for i, j in links.joined:
            counts.setdefault(source[i], Counter())[target[j]] += 1
    frequency: Counter = Counter()  # of target words
    for links in counts.values():
        frequency.update(links)
    entries = {word: _best(links, frequency, keep, minimum_probability) for word, links in counts.items()}
    return LexicalTable({source: translations for source, translations in entries.items() if translations})


def _best(links: Counter, frequency: Counter, keep: int, minimum_probability: float) -> list[tuple[str, float]]:
    total = links.total()
    # Among equal counts the rarer word comes first, because a frequent word has many links by chance.
    ranked = sorted((-count, frequency[target], target) for target, count in links.items())[:keep]
    # Rounded as in `save`, so that a loaded table equals the saved one.
    shares = [(word, float(f"{-count / total:.5g}")) for count, _, word in ranked]
    return [(word, share) for word, share in shares if share >= minimum_probability]


def _add_row(entries: dict[str, list[tuple[str, float]]], line: str) -> None:
    columns = line.removesuffix("\n").split("\t")
    if len(columns) != 3 or not line.endswith("\n"):
        raise ValueError("a source word, a target word and a probability are expected, with tabs between")
    source, target, probability = columns[0], columns[1], float(columns[2])
    if not 0 < probability <= 1:
        raise ValueError(f"{columns[2]} is not a probability")
    translations = entries.setdefault(source, [])
    if len(translations) == MAX_TRANSLATIONS:
        raise ValueError(f"{source!r} has more than {MAX_TRANSLATIONS} translations")
    if any(target == other for other, _ in translations):
        raise ValueError(f"{target!r} appears twice as a translation of {source!r}")
    if translations and translations[-1][1] < probability:
        raise ValueError(f"the translations of {source!r} are not in the order of their probabilities")
    translations.append((target, probability))
