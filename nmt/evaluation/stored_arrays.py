"""Read the arrays of an evaluation, a few sentences at a time to save memory.

alignments.npz has the attention of each translation. forced_alignments.npz has that of each reference, and gold links.
traces.npz has what the parts of a model show in each translation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.npyio import NpzFile

from nmt.evaluation.stored_evaluation import StoredEvaluation
from nmt.system.safe_files import UnreadableError, check_regular, inside

MAX_SIZE = 2**22  # bytes of an array, uncompressed
MIN_WEIGHT = 0.02  # smaller weights are read as zero
MAX_CELLS, MAX_NUMBERS = 1_000, 2**21  # of a memory, and in all traces of a sentence
# what is lost without a file, and how to get it
LOSS = "no alignments; evaluate it again"
FORCED_LOSS = "no gold links; evaluate it again"
TRACES_LOSS = "no traces; evaluate it again with traces=true"

Traces = dict[str, np.ndarray]  # of a sentence, by name


class ForcedAlignment(NamedTuple):
    """The attention of a reference, and its gold links: 1 sure, 0.5 possible; both (word, source word)."""

    weights: np.ndarray  # from 0 to 255
    gold: np.ndarray


class SentenceArrays:
    """The arrays in a file; if there is none or it cannot be read, `archive` is None and `notes` say what is lost.

    Args:
        path: The file.
        loss: What is lost if it cannot be read, for notes.
        read_all: Return what the archive holds of the sentences of these numbers, or raise any error.
    """

    def __init__(self, path: Path, loss: str, read_all: Callable[[NpzFile, Sequence[int]], list[Any]]):
        self.path, self.loss, self.read_all = path, loss, read_all
        self.archive, self.notes = _open_archive(path, loss) if path.exists() else (None, ())

    def read(self, numbers: Sequence[int]) -> list[Any] | None:
        """Return what the file holds of these sentences; None if it cannot be read."""
        try:
            return None if self.archive is None else self.read_all(self.archive, numbers)
        except Exception as error:  # a damaged archive raises errors of many types
            self.archive, self.notes = None, (f"{self.path.name} is damaged ({type(error).__name__}): {self.loss}",)
            return None


def _open_archive(path: Path, loss: str) -> tuple[NpzFile | None, tuple[str, ...]]:
    try:
        check_regular(inside(path.parents[1], path.relative_to(path.parents[1])))
        archive = np.load(path, allow_pickle=False)
        largest = max(member.file_size for member in archive.zip.infolist())
    except UnreadableError as error:
        return None, (f"{error}: {loss}",)
    except Exception:  # a damaged archive raises errors of many types
        return None, (f"{path.name} is damaged: {loss}",)
    return (archive, ()) if largest <= MAX_SIZE else (None, (f"{path.name} is not of sentences: {loss}",))


def open_alignments(evaluation: StoredEvaluation) -> SentenceArrays:
    """Open the alignments of a run on a test set: (word, source word) of each sentence, from 0 to 255."""
    path = evaluation.folder / "alignments.npz"
    arrays = SentenceArrays(path, LOSS, partial(_read_alignments, evaluation))
    # a run restored by studies has neither words nor alignments
    if not path.exists() and any(sentence.words for sentence in evaluation.sentences):
        arrays.notes = (f"there is no alignments.npz: {LOSS}",)
    return arrays


def _read_alignments(evaluation: StoredEvaluation, archive: NpzFile, numbers: Sequence[int]) -> list[np.ndarray]:
    alignments = [archive[str(number)] for number in numbers]
    for number, weights in zip(numbers, alignments, strict=True):
        sentence = evaluation.sentences[number]
        if weights.shape != (len(sentence.words), len(sentence.source_words)):
            raise ValueError
    return list(map(_as_bytes, alignments))


def open_forced(evaluation: StoredEvaluation) -> SentenceArrays:
    """Open the attention of the references, a ForcedAlignment for each sentence."""
    return SentenceArrays(evaluation.folder / "forced_alignments.npz", FORCED_LOSS, partial(_read_forced, evaluation))


def _read_forced(evaluation: StoredEvaluation, archive: NpzFile, numbers: Sequence[int]) -> list[ForcedAlignment]:
    forced = []
    for number in numbers:
        weights, gold = archive[f"weights/{number}"], archive[f"gold/{number}"].astype(np.float32)
        sentence = evaluation.sentences[number]
        words = (len(sentence.reference.split()), len(sentence.source.split()))
        if not (weights.shape == gold.shape == words) or not weights.size:
            raise ValueError
        forced.append(ForcedAlignment(_as_bytes(weights), np.nan_to_num(gold).clip(0, 1)))
    return forced


def _as_bytes(weights: np.ndarray) -> np.ndarray:
    weights = np.nan_to_num(weights.astype(np.float32)).clip(0, 1)
    return np.where(weights < MIN_WEIGHT, 0, weights * 255).round().astype(np.uint8)


def open_traces(evaluation: StoredEvaluation) -> SentenceArrays:
    """Open the traces of a run on a test set."""
    return SentenceArrays(evaluation.folder / "traces.npz", TRACES_LOSS, partial(_read_traces, evaluation))


def _read_traces(evaluation: StoredEvaluation, archive: NpzFile, numbers: Sequence[int]) -> list[Traces]:
    names = list(dict.fromkeys(key.rpartition("/")[0] for key in archive.files))
    return [_read_traces_of_sentence(archive, evaluation, names, number) for number in numbers]


def _read_traces_of_sentence(
    archive: NpzFile, evaluation: StoredEvaluation, names: Sequence[str], number: int
) -> Traces:
    sentence = evaluation.sentences[number]
    rows, columns = len(sentence.words), len(sentence.source_words)
    traces, left = {}, MAX_NUMBERS
    for name in names:
        if f"{name}/{number}" in archive:
            values = np.nan_to_num(archive[f"{name}/{number}"].astype(np.float32))
            is_known = values.shape in {(rows,), (rows, columns), (rows, 1, min(values.shape[-1], MAX_CELLS))}
            left -= values.size
            if not is_known or not values.size or left < 0:
                raise ValueError
            traces[name] = values
    return traces
