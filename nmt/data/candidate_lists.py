"""Candidate lists (Jean 2015; Sankaran 2016 §6.2): of a large vocabulary the few words a source sentence may need.

The `most_frequent` words, and the `translations` most probable translations of each source word, learned by an aligner;
in training also the batch's own words. Everything is in numbers, so that words and BPE pieces are treated alike.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.data.corpus_cache import Prepared
from nmt.data.lexical_table import learn
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import SPECIAL
from nmt.errors import ConfigurationError, DataError
from nmt.system.files import whole
from nmt.system.locks import alone

log = logging.getLogger(__name__)


class Candidates:
    """`frequent`: target words, ascending, the special symbols first, so that these keep their numbers among
    candidates; the translations of source word s are translations[offsets[s] : offsets[s + 1]]."""

    def __init__(self, frequent: np.ndarray, offsets: np.ndarray, translations: np.ndarray):
        self.frequent, self.offsets, self.translations = frequent, offsets, translations

    def of_words(self, source: np.ndarray) -> np.ndarray:
        """Translations of any of these source words; a word may come twice."""
        words = np.unique(source)
        return np.concatenate([self.translations[self.offsets[word] : self.offsets[word + 1]] for word in words])

    def of_batch(self, source: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
        """The candidates, ascending, of a batch's source words, with its own target words in training."""
        own = [] if target is None else [target.reshape(-1)]
        return np.unique(np.concatenate([self.frequent, self.of_words(source), *own])).astype(np.int64)

    def of_sentences(self, source: np.ndarray, prefixes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The batch's candidates (C,), and which of them belong to which of its sentences (B, C): what a sentence may
        say does not depend on the others. The words of `prefixes` are candidates of their sentences."""
        together = self.of_batch(source, prefixes)
        allowed = np.zeros((len(source), len(together)), dtype=bool)
        allowed[:, np.searchsorted(together, self.frequent)] = True
        for number, row in enumerate(source):
            allowed[number, np.searchsorted(together, self.of_words(row))] = True
            if prefixes is not None:
                allowed[number, np.searchsorted(together, prefixes[number])] = True
        return together, allowed

    def save(self, path: Path) -> None:
        with whole(path) as draft, draft.open("wb") as file:
            np.savez(file, frequent=self.frequent, offsets=self.offsets, translations=self.translations)

    @classmethod
    def load(cls, path: Path) -> "Candidates":
        try:
            with np.load(path, allow_pickle=False) as stored:
                lists = [stored[name] for name in ("frequent", "offsets", "translations")]
            _check(*lists)
        except Exception as error:  # a damaged archive fails in as many ways as there are to damage one
            raise DataError(
                f"{path}: cannot be read as candidate lists ({error}); in the cache it is made anew once removed, a "
                "run can be searched without (candidates=false)"
            ) from None
        return cls(*lists)

    def must_fit(self, sizes: Sides, path: Path) -> None:
        """`sizes`: of the vocabularies whose words they number."""
        most = max(int(words.max(initial=0)) for words in (self.frequent, self.translations))
        if len(self.offsets) != sizes.source + 1 or most >= sizes.target:
            raise DataError(
                f"{path}: of {len(self.offsets) - 1} source and at least {most + 1} target words, but the vocabularies "
                f"have {sizes.source} and {sizes.target}: these candidate lists are another run's"
            )


def _check(frequent: np.ndarray, offsets: np.ndarray, translations: np.ndarray) -> None:
    if not all(one.ndim == 1 and one.dtype.kind in "iu" for one in (frequent, offsets, translations)):
        raise ValueError("whole numbers in a row are expected")
    if frequent[: len(SPECIAL)].tolist() != list(range(len(SPECIAL))) or (np.diff(frequent) <= 0).any():
        raise ValueError("frequent is not ascending from the special symbols")
    if (np.diff(offsets, prepend=0) < 0).any() or offsets[:1] != [0] or offsets[-1] != len(translations):
        raise ValueError("offsets are not those of the translations")
    if (translations < 0).any():
        raise ValueError("translations are numbers of words")


def candidates_of(prepared: Prepared, *, most_frequent: int, translations: int) -> Candidates:
    """Of a prepared corpus, kept beside it; made once, whoever asks first."""
    for name, given, least in (
        ("most_frequent", most_frequent, len(SPECIAL)),
        ("translations", translations, 1),
    ):
        if given < least:
            raise ConfigurationError(f"data.candidates.{name}={given}: must be at least {least}")
    path = prepared.folder / f"candidates_{most_frequent}_{translations}.npz"
    if not path.exists():
        held = f"candidate lists: another process makes {path}; waiting for it"
        with alone(path.with_suffix(".lock"), held=held):
            if not path.exists():
                log.info("candidate lists: aligning the training text")
                _learned(prepared, most_frequent, translations).save(path)
    return Candidates.load(path)


def _learned(prepared: Prepared, most_frequent: int, translations: int) -> Candidates:
    text = prepared.split("train")
    sizes = Sides(*(len(language.vocabulary) for language in prepared.languages))
    table = learn(_as_words(text), keep=translations)
    found = [[int(target) for target, _ in table.translations(str(source))] for source in range(sizes.source)]
    counts = np.bincount(text.target.numbers, minlength=sizes.target)
    counts[: len(SPECIAL)] = np.iinfo(counts.dtype).max  # the special symbols are always candidates
    frequent = np.sort(np.argsort(-counts, kind="stable")[:most_frequent])
    flat = np.array([target for targets in found for target in targets], dtype=np.int64)
    return Candidates(frequent, np.cumsum([0, *map(len, found)]), flat)


def _as_words(text: Sides) -> Iterator[tuple[str, str]]:
    """Sentences as an aligner reads them, each number a word."""
    for number in range(len(text.source)):
        yield " ".join(map(str, text.source[number].tolist())), " ".join(map(str, text.target[number].tolist()))
