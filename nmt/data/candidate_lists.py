"""Candidate lists (Jean 2015; Sankaran 2016 §6.2): the few target words that a source sentence may need.

The candidates are the `most_frequent` words and the `translations` most probable translations of each source word. An
aligner learns the translations. In training, the words of the batch's references are candidates too.
All words are ids, so that words and BPE pieces are treated alike.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.data.corpus_cache import FIX, PreparedCorpus
from nmt.data.lexical_table import learn_lexical_table
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import SPECIAL
from nmt.errors import ConfigurationError, DataError
from nmt.system.files import atomic_write
from nmt.system.locks import lock_file
from nmt.system.safe_files import check_regular

log = logging.getLogger(__name__)


class Candidates:
    """The lists of a corpus.

    Args:
        frequent: Target word ids, ascending; the special symbols come first, so each keeps its id among candidates.
        offsets: The translations of source word s are translations[offsets[s] : offsets[s + 1]].
        translations: Target word ids.
    """

    def __init__(self, frequent: np.ndarray, offsets: np.ndarray, translations: np.ndarray):
        self.frequent, self.offsets, self.translations = frequent, offsets, translations

    def select_translations(self, source: np.ndarray) -> np.ndarray:
        """Return the translations of source words; a translation may occur twice."""
        words = np.unique(source)
        return np.concatenate([self.translations[self.offsets[word] : self.offsets[word + 1]] for word in words])

    def select_for_batch(self, source: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
        """Return the ascending candidates of a batch; in training, `target` words are added."""
        references = [] if target is None else [target.reshape(-1)]
        return np.unique(np.concatenate([self.frequent, self.select_translations(source), *references])).astype(
            np.int64
        )

    def select_for_sentences(
        self, source: np.ndarray, prefixes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the batch's candidates (C,) and which of them each sentence may use (B, C).

        The candidates of a sentence do not depend on the other sentences; the words of its prefix are added.
        """
        candidates = self.select_for_batch(source, prefixes)
        allowed = np.zeros((len(source), len(candidates)), dtype=bool)
        allowed[:, np.searchsorted(candidates, self.frequent)] = True
        for number, row in enumerate(source):
            allowed[number, np.searchsorted(candidates, self.select_translations(row))] = True
            if prefixes is not None:
                allowed[number, np.searchsorted(candidates, prefixes[number])] = True
        return candidates, allowed

    def save(self, path: Path) -> None:
        """Write the lists to an .npz file."""
        with atomic_write(path) as draft, draft.open("wb") as file:
            np.savez(file, frequent=self.frequent, offsets=self.offsets, translations=self.translations)

    @classmethod
    def load(cls, path: Path) -> "Candidates":
        """Read and check an .npz file."""
        try:
            check_regular(path)
            with np.load(path, allow_pickle=False) as stored:
                lists = [stored[name] for name in ("frequent", "offsets", "translations")]
            _check_lists(*lists)
        except Exception as error:  # because a damaged archive can raise any error
            raise DataError(f"{path}: cannot be read as candidate lists ({error})") from None
        return cls(*lists)

    def check_vocabulary_sizes(self, sizes: Sides, path: Path) -> None:
        """Raise an error if the lists of file `path` do not belong to vocabularies of these sizes."""
        largest = max(int(words.max(initial=0)) for words in (self.frequent, self.translations))
        if len(self.offsets) != sizes.source + 1 or largest >= sizes.target:
            raise DataError(
                f"{path}: lists of another run, with {len(self.offsets) - 1} source and at least {largest + 1} target "
                f"words; the vocabularies have {sizes.source} and {sizes.target}. Fix: candidates=false"
            )


def _check_lists(frequent: np.ndarray, offsets: np.ndarray, translations: np.ndarray) -> None:
    if not all(array.ndim == 1 and array.dtype.kind in "iu" for array in (frequent, offsets, translations)):
        raise ValueError("the lists are not one-dimensional arrays of integers")
    if frequent[: len(SPECIAL)].tolist() != list(range(len(SPECIAL))) or (np.diff(frequent) <= 0).any():
        raise ValueError("the frequent words do not ascend from the special symbols")
    if (np.diff(offsets, prepend=0) < 0).any() or offsets[:1] != [0] or offsets[-1] != len(translations):
        raise ValueError("the offsets do not fit the translations")
    if (translations < 0).any():
        raise ValueError("a translation has a negative id")


def load_or_learn_candidates(prepared: PreparedCorpus, *, most_frequent: int, translations: int) -> Candidates:
    """Return the lists of a prepared corpus, stored in its folder; learn them if they are missing."""
    for name, value, minimum in (("most_frequent", most_frequent, len(SPECIAL)), ("translations", translations, 1)):
        if value < minimum:
            raise ConfigurationError(f"data.candidates.{name}={value}: must be at least {minimum}")
    path = prepared.folder / f"candidates_{most_frequent}_{translations}.npz"
    if path.exists() and (candidates := _load_undamaged(path)):
        return candidates
    message = f"candidate lists: another process makes {path}; waiting for it"
    with lock_file(path.with_suffix(".lock"), message=message):
        if path.exists() and (candidates := _load_undamaged(path)):  # another process may have made it meanwhile
            return candidates
        log.info("candidate lists: aligning the training text")
        candidates = _learn_candidates(prepared, most_frequent, translations)
        try:
            candidates.save(path)
        except OSError as error:
            reason = error.strerror
            log.warning("%s: cannot be written (%s), so each start makes these lists again. %s", path, reason, FIX)
    return candidates


def _load_undamaged(path: Path) -> Candidates | None:
    try:
        return Candidates.load(path)
    except DataError as error:
        log.warning("%s. In the cache, so these lists are made again", error)
        return None


def _learn_candidates(prepared: PreparedCorpus, most_frequent: int, translations: int) -> Candidates:
    text = prepared.split("train")
    sizes = Sides(*(len(language.vocabulary) for language in prepared.languages))
    table = learn_lexical_table(_spell_ids(text), keep=translations)
    lists = [[int(target) for target, _ in table.translations(str(source))] for source in range(sizes.source)]
    counts = np.bincount(text.target.ids, minlength=sizes.target)
    counts[: len(SPECIAL)] = np.iinfo(counts.dtype).max  # because the special symbols are always candidates
    frequent = np.sort(np.argsort(-counts, kind="stable")[:most_frequent])
    flat = np.array([target for targets in lists for target in targets], dtype=np.int64)
    return Candidates(frequent, np.cumsum([0, *map(len, lists)]), flat)


def _spell_ids(text: Sides) -> Iterator[tuple[str, str]]:
    """Yield sentence pairs for the aligner, in which the words are ids."""
    for number in range(len(text.source)):
        yield " ".join(map(str, text.source[number].tolist())), " ".join(map(str, text.target[number].tolist()))
