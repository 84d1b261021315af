"""A word's translations, learned from training pairs by an aligner (fast_align, Dyer et al. 2013, by systran-align).

The aligner reads numbers instead of words, so no word can mean anything to it. It runs in a process of its own with one
thread: with more, the order of its sums and so the table would change from run to run. Text streams through files:
memory grows with the number of different words and links, not with the number of sentences.
"""

import gzip
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nmt.data.text_files import DAMAGE, TooLongError, open_text, raw_lines
from nmt.errors import DataError, UserError
from nmt.system.files import whole

ALIGNER = "systran-align==3.5.0"

# Which links count and how they are found was measured: benchmarks/aligners.py.
ALIGN = """
import sys
from itertools import islice
import systran_align

pairs, forward, backward, links = sys.argv[1:]
systran_align.generate_alignment_probabilities(pairs, forward, backward)
aligner = systran_align.Aligner(forward, backward)
with open(pairs) as stream, open(links, "w") as out:
    while block := [[side.split() for side in line.split("|||")] for line in islice(stream, 4096)]:
        for found in aligner.align_batch(*map(list, zip(*block))):
            out.write(" ".join(f"{source}-{target}" for source, target in found["alignments"]) + "\\n")
"""

MOST = 1000  # translations of a word that a file may hold; each is compared with those before it
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
ESCAPED = {escape: character for character, escape in ESCAPES.items()}


class WordTable:
    """Source words with their translations and these' probabilities, the best first."""

    def __init__(self, entries: dict[str, list[tuple[str, float]]]):
        self.entries = entries

    def translations(self, word: str) -> list[tuple[str, float]]:
        """(translation, probability), the best first; empty where the word is unknown."""
        return self.entries.get(word, [])

    def best(self, word: str) -> str | None:
        return self.entries[word][0][0] if word in self.entries else None

    def save(self, path: Path) -> None:
        """Lines of source, target and probability with tabs between, packed by gzip; the same table, the same bytes."""
        with whole(path) as draft, draft.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream:
            for source, translations in sorted(self.entries.items()):
                for target, probability in translations:
                    stream.write(f"{_escape(source)}\t{_escape(target)}\t{probability:.5g}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "WordTable":
        entries: dict[str, list[tuple[str, float]]] = {}
        number = 0
        try:
            with open_text(path) as stream:
                for number, line in enumerate(raw_lines(stream), start=1):  # noqa: B007 – named where it is damaged
                    _add_row(entries, line.decode("utf-8"))
        except (TooLongError, ValueError) as error:
            raise DataError(f"{path}, line {number}: {error}; learn the table again") from None
        except DAMAGE as error:
            raise DataError(f"{path}, after line {number}: cannot be read ({error}); learn the table again") from None
        return cls(entries)


def learn(pairs: Iterable[tuple[str, str]], *, keep: int = 10, minimum_probability: float = 0.01) -> WordTable:
    """The `keep` best translations of each source word, of pairs of sentences whose words have single blanks between.

    A probability is a translation's share of all links of its source word.
    """
    if importlib.util.find_spec("systran_align") is None:
        raise UserError(
            f"no aligner is installed: pip install {ALIGNER} (there for Linux on x86-64, Python 3.9 to 3.11)"
        )
    with tempfile.TemporaryDirectory(prefix="word_table_") as name:
        folder = Path(name)
        words = _write_numbers(pairs, folder / "pairs")
        _align(folder)
        counts = _count_links(folder)
    frequency: Counter = Counter()  # of target words
    for found in counts.values():
        frequency.update(found)
    entries = {
        words[source]: _best(found, frequency, words, keep, minimum_probability) for source, found in counts.items()
    }
    return WordTable({source: translations for source, translations in entries.items() if translations})


def _write_numbers(pairs: Iterable[tuple[str, str]], path: Path) -> list[str]:
    """Returns the words in the order of their numbers."""
    numbers: dict[str, int] = {}
    empty = True
    with open(path, "w", encoding="utf-8") as stream:
        for pair in pairs:
            source, target = ([numbers.setdefault(word, len(numbers)) for word in _words(side)] for side in pair)
            if source and target:
                empty = False
                print(*source, "|||", *target, file=stream)
    if empty:
        raise DataError("no pair has words on both sides: there is nothing to learn translations from")
    return list(numbers)


def _words(sentence: str) -> list[str]:
    """Split at blanks only: of what else calls itself a word, all is kept."""
    return [word for word in sentence.split(" ") if word]


def _align(folder: Path) -> None:
    files = [str(folder / name) for name in ("pairs", "forward", "backward", "links")]
    command = [sys.executable, "-c", ALIGN, *files]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2] or "it said nothing; was there too little memory?"
        raise UserError(f"the aligner {ALIGNER} ended with status {done.returncode}: {said}")


def _count_links(folder: Path) -> dict[int, Counter]:
    """How often each target word is linked to each source word."""
    counts: dict[int, Counter] = {}
    with open(folder / "pairs") as pairs, open(folder / "links") as links:
        for pair, line in zip(pairs, links, strict=True):
            source, target = ([int(number) for number in side.split()] for side in pair.split("|||"))
            for link in line.split():
                i, j = map(int, link.split("-"))
                counts.setdefault(source[i], Counter())[target[j]] += 1
    return counts


def _best(
    found: Counter, frequency: Counter, words: list[str], keep: int, minimum_probability: float
) -> list[tuple[str, float]]:
    """Of translations linked equally often the rarer word comes first: a frequent one is linked to much by chance."""
    total = found.total()
    ranked = sorted((-count, frequency[target], words[target]) for target, count in found.items())[:keep]
    # Rounded as it is saved, so that a saved table is the very table.
    shares = [(word, float(f"{-count / total:.5g}")) for count, _, word in ranked]
    return [(word, share) for word, share in shares if share >= minimum_probability]


def _add_row(entries: dict[str, list[tuple[str, float]]], line: str) -> None:
    columns = line.removesuffix("\n").split("\t")
    if len(columns) != 3 or not line.endswith("\n"):
        raise ValueError("a source word, a target word and a probability are expected, with tabs between")
    source, target = map(_unescape, columns[:2])
    probability = float(columns[2])
    if not 0 < probability <= 1:
        raise ValueError(f"{columns[2]} is not a probability")
    translations = entries.setdefault(source, [])
    if len(translations) == MOST:
        raise ValueError(f"{source!r} has more than {MOST} translations")
    if any(target == other for other, _ in translations):
        raise ValueError(f"{target!r} is there twice as a translation of {source!r}")
    if translations and translations[-1][1] < probability:
        raise ValueError(f"the translations of {source!r} are not in the order of their probabilities")
    translations.append((target, probability))


def _escape(word: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in word)


def _unescape(text: str) -> str:
    return re.sub(r"\\.", lambda match: ESCAPED.get(match[0], match[0]), text)
