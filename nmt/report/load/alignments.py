"""Read attention, a few sentences at a time to save memory.

alignments.npz has the attention of each translation. forced_alignments.npz has that of each reference, and gold links.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.npyio import NpzFile

from nmt.report.load.evaluation import Evaluation, Sentence
from nmt.system.safe_files import UnreadableError, check_regular, inside

MAX_SIZE = 2**22  # bytes of an array, uncompressed
MIN_WEIGHT = 0.02  # smaller weights are read as zero
LOSS = "no alignments; evaluate it again"
FORCED_LOSS = "no gold links; evaluate it again"


class ForcedAlignment(NamedTuple):
    """The attention of a reference, and its gold links: 1 sure, 0.5 possible; both (word, source word)."""

    weights: np.ndarray  # from 0 to 255
    gold: np.ndarray


def open_alignments(evaluation: Evaluation) -> tuple[NpzFile | None, tuple[str, ...]]:
    """Open the alignments of a run on a test set; if they cannot be read, return None and a note."""
    if not evaluation.alignments.exists():
        has_words = any(sentence.words for sentence in evaluation.sentences)  # a run restored by studies has none
        return None, (f"there is no alignments.npz: {LOSS}",) if has_words else ()
    return open_archive(evaluation.alignments, LOSS)


def open_archive(path: Path, loss: str) -> tuple[NpzFile | None, tuple[str, ...]]:
    """Open a file with arrays of sentences; if it is damaged, return None and a note of what is lost."""
    try:
        check_regular(inside(path.parents[1], path.relative_to(path.parents[1])))
        archive = np.load(path, allow_pickle=False)
        largest = max(member.file_size for member in archive.zip.infolist())
    except UnreadableError as error:
        return None, (f"{error}: {loss}",)
    except Exception:  # a damaged archive raises errors of many types
        return None, (f"{path.name} is damaged: {loss}",)
    return (archive, ()) if largest <= MAX_SIZE else (None, (f"{path.name} is not of sentences: {loss}",))


def read_alignments(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[list[np.ndarray] | None, tuple[str, ...]]:
    """Return (word, source word) of each sentence, from 0 to 255; if one cannot be read, return None and a note."""
    try:
        return [_read_alignment(archive, evaluation.sentences[number], number) for number in numbers], ()
    except Exception as error:  # as above
        return None, (f"alignments.npz is damaged ({type(error).__name__}): {LOSS}",)


def _read_alignment(archive: NpzFile, sentence: Sentence, number: int) -> np.ndarray:
    weights = archive[str(number)]
    if weights.shape != (len(sentence.words), len(sentence.source_words)):
        raise ValueError
    return _as_bytes(weights)


def open_forced(evaluation: Evaluation) -> tuple[NpzFile | None, tuple[str, ...]]:
    """Open the attention of the references; if there is none or it cannot be read, return None and notes."""
    return open_archive(evaluation.forced, FORCED_LOSS) if evaluation.forced.exists() else (None, ())


def read_forced(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[list[ForcedAlignment] | None, tuple[str, ...]]:
    """Return the attention and the gold links of each sentence; if one cannot be read, return None and a note."""
    try:
        return [_read_forced(archive, evaluation, number) for number in numbers], ()
    except Exception as error:  # as above
        return None, (f"forced_alignments.npz is damaged ({type(error).__name__}): {FORCED_LOSS}",)


def _read_forced(archive: NpzFile, evaluation: Evaluation, number: int) -> ForcedAlignment:
    weights, gold = archive[f"weights/{number}"], archive[f"gold/{number}"].astype(np.float32)
    sentence = evaluation.sentences[number]
    words = (len(sentence.reference.split()), len(sentence.source.split()))
    if not (weights.shape == gold.shape == words) or not weights.size:
        raise ValueError
    return ForcedAlignment(_as_bytes(weights), np.nan_to_num(gold).clip(0, 1))


def _as_bytes(weights: np.ndarray) -> np.ndarray:
    weights = np.nan_to_num(weights.astype(np.float32)).clip(0, 1)
    return np.where(weights < MIN_WEIGHT, 0, weights * 255).round().astype(np.uint8)
