"""The lexical table: translations of source words, learned from sentence pairs by eflomal (Östling and Tiedemann 2016).

The aligner (package sil-thot) gets ids instead of words, because it gives some words a special meaning. It runs in
a separate process with one thread, because with more threads the order of its sums changes from run to run.
Text streams through files. The aligner holds all of it in memory, about 0.6 KB a pair of captions.
"""

import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nmt.data.text_files import ARCHIVE_ERRORS, LineTooLongError, open_text, read_bounded_lines
from nmt.errors import DataError, UserError, is_importable
from nmt.system.files import atomic_write

ALIGNER = "sil-thot==3.5.3"

# benchmarks/aligners.py compares ways to link words and to count links; this one was best.
ALIGN = """
import os
import sys
from thot import alignment

parent = os.getppid()

def train(source, target):
    model = alignment.EflomalAlignmentModel()
    model.num_samplers = 1
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    model.start_training()
    for _ in range(model.scheduled_iterations):
        model.train()
        if os.getppid() != parent:
            sys.exit("the process that waited for the links was killed")
    model.end_training()
    return model

source, target, links = sys.argv[1:]
both = alignment.SymmetrizedAlignmentModel(train(source, target), train(target, source))
both.heuristic = alignment.SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
with open(links, "w") as out:
    for number in range(both.num_sentence_pairs):
        matrix = both.get_training_alignment(number)[1].to_numpy()
        out.write(" ".join(f"{i}-{j}" for i, j in zip(*matrix.nonzero())) + "\\n")
"""

MAX_TRANSLATIONS = 1000  # of a word in a file, because each is compared with all before it
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


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
                    stream.write(f"{_escape(source)}\t{_escape(target)}\t{probability:.5g}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "LexicalTable":
        """Read a file that `save` wrote; an error names the line."""
        entries: dict[str, list[tuple[str, float]]] = {}
        number = 0
        try:
            with open_text(path) as stream:
                for number, line in enumerate(read_bounded_lines(stream), start=1):  # noqa: B007 – for the messages
                    _add_row(entries, line.decode("utf-8"))
        except (LineTooLongError, ValueError) as error:
            raise DataError(f"{path}, line {number}: {error}. Fix: remove the file; it is learned again") from None
        except ARCHIVE_ERRORS as error:
            raise DataError(
                f"{path}, after line {number}: cannot be read ({error}). Fix: remove the file; it is learned again"
            ) from None
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
    if not is_importable("thot"):
        raise UserError(f"no aligner (extra: align) is installed. Fix: pip install {ALIGNER}")
    with tempfile.TemporaryDirectory(prefix="word_table_") as name:
        folder = Path(name)
        words = _write_ids(pairs, folder)
        _align(folder)
        counts = _count_links(folder)
    frequency: Counter = Counter()  # of target words
    for links in counts.values():
        frequency.update(links)
    entries = {
        words[source]: _best(links, frequency, words, keep, minimum_probability) for source, links in counts.items()
    }
    return LexicalTable({source: translations for source, translations in entries.items() if translations})


def _write_ids(pairs: Iterable[tuple[str, str]], folder: Path) -> list[str]:
    """Write the aligner's input, a file for each side; return the words in the order of their ids."""
    ids: dict[str, int] = {}
    empty = True
    with open(folder / "source", "w") as sources, open(folder / "target", "w") as targets:
        for pair in pairs:
            source, target = ([ids.setdefault(word, len(ids)) for word in _split(side)] for side in pair)
            if source and target:
                empty = False
                print(*source, file=sources)
                print(*target, file=targets)
    if empty:
        raise DataError("no pair has words on both sides: there is nothing to learn translations from")
    return list(ids)


def _split(sentence: str) -> list[str]:
    """Split at spaces only, because a word may contain other white space."""
    return [word for word in sentence.split(" ") if word]


def _align(folder: Path) -> None:
    files = [str(folder / name) for name in ("source", "target", "links")]
    command = [sys.executable, "-c", ALIGN, *files]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        message = done.stderr.strip().rpartition("\n")[2] or "no message; perhaps there was too little memory"
        raise UserError(f"the aligner {ALIGNER} ended with status {done.returncode}: {message}")


def _count_links(folder: Path) -> dict[int, Counter]:
    """Count how often each target word is linked to each source word."""
    counts: dict[int, Counter] = {}
    with open(folder / "source") as sources, open(folder / "target") as targets, open(folder / "links") as links:
        for *sides, line in zip(sources, targets, links, strict=True):
            source, target = ([int(word) for word in side.split()] for side in sides)
            for link in line.split():
                i, j = map(int, link.split("-"))
                counts.setdefault(source[i], Counter())[target[j]] += 1
    return counts


def _best(
    links: Counter, frequency: Counter, words: list[str], keep: int, minimum_probability: float
) -> list[tuple[str, float]]:
    total = links.total()
    # Among equal counts the rarer word comes first, because a frequent word has many links by chance.
    ranked = sorted((-count, frequency[target], words[target]) for target, count in links.items())[:keep]
    # Rounded as in `save`, so that a loaded table equals the saved one.
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
    if len(translations) == MAX_TRANSLATIONS:
        raise ValueError(f"{source!r} has more than {MAX_TRANSLATIONS} translations")
    if any(target == other for other, _ in translations):
        raise ValueError(f"{target!r} appears twice as a translation of {source!r}")
    if translations and translations[-1][1] < probability:
        raise ValueError(f"the translations of {source!r} are not in the order of their probabilities")
    translations.append((target, probability))


def _escape(word: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in word)


def _unescape(text: str) -> str:
    return re.sub(r"\\.", lambda match: UNESCAPES.get(match[0], match[0]), text)
