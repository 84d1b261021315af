"""Sentences and alignments, small enough to lie in a page: JSON or bytes, deflated, in base64.

The browser unpacks what is looked at. An alignment's weights are bytes, those under a fiftieth zero; alignments come in
chunks, sentences first on which the runs differ most, as many as there is room for.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU

from nmt.data.vocabulary import END, SPECIAL
from nmt.evaluation.bleu import ORDER
from nmt.report.load.evaluation import Evaluated, Sentence
from nmt.report.load.run_folder import RunFolder

FAINT = 0.02  # a weight below it is shown as none
TOGETHER = 25  # sentences of a chunk of alignments
ROWS = 250  # sentences of a chunk of translations
LARGEST = 2**26  # bytes of an alignment, unpacked
STEPS = 2  # of sentence BLEU, to one point


def packed(content: Any) -> str:
    return deflated(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def packed_side_by_side(hypotheses: Sequence[Sequence[str]]) -> list[str]:
    """All runs' translations of a sentence beside each other, where what they share costs little."""
    rows = list(zip(*hypotheses, strict=True))
    return [packed(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)]


def sentence_bleu(found: Evaluated) -> np.ndarray:
    """Of every sentence, smoothed, over the n-grams that it is long enough for."""
    return np.array([_bleu(row) for row in found.statistics.tolist()])


def _bleu(row: list[int]) -> float:
    said, wanted, *counts = row
    return BLEU.compute_bleu(
        counts[:ORDER], counts[ORDER:], said, wanted, smooth_method="exp", effective_order=True
    ).score


def packed_scores(scores: np.ndarray) -> str:
    """A byte a sentence."""
    return base64.b64encode((scores * STEPS).round().astype(np.uint8).tobytes()).decode()


def packed_alignments(
    evaluated: Sequence[tuple[RunFolder, Evaluated]], scores: Sequence[np.ndarray], room: float
) -> dict[str, Any]:
    """`order`: the sentences that have alignments; `runs`: each one's chunks of them, or null, and a note."""
    order = by_disagreement(scores)
    archives = [Archive(run, on) for run, on in evaluated]
    kept = 0
    while kept < len(order) and room > 0 and any(archive.chunks is not None for archive in archives):
        numbers = order[kept : kept + TOGETHER].tolist()
        room -= sum(archive.pack(numbers) for archive in archives)
        kept += len(numbers)
    chunks = [archive.chunks for archive in archives]
    return {"order": order[:kept].tolist(), "together": TOGETHER, "runs": chunks}


class Archive:
    """A run's alignments; where they cannot be read, `chunks` is None and the run notes why."""

    def __init__(self, run: RunFolder, on: Evaluated):
        self.run, self.sentences = run, on.sentences
        self.chunks: list[str] | None = []
        try:
            self.stored = np.load(on.alignments, allow_pickle=False)
            if max(part.file_size for part in self.stored.zip.infolist()) > LARGEST:
                self._give_up("alignments.npz is not of sentences")
        except FileNotFoundError:
            self.chunks = None
            if any(sentence.words for sentence in self.sentences):  # a run that was kept in small lacks both
                self._give_up("there is no alignments.npz")
        except Exception:  # a damaged archive fails in as many ways as there are to damage one
            self._give_up("alignments.npz is damaged")

    def pack(self, numbers: Sequence[int]) -> int:
        """One more chunk; gives its size."""
        if self.chunks is None:
            return 0
        try:
            self.chunks.append(_chunk(self.stored, self.sentences, numbers))
        except Exception as error:
            self._give_up(f"alignments.npz is damaged ({type(error).__name__})")
            return 0
        return len(self.chunks[-1])

    def _give_up(self, reason: str) -> None:
        self.chunks = None
        self.run.notes.append(f"{reason}: no alignments; evaluate it again")


def by_disagreement(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Sentences, those first whose scores are furthest apart."""
    table = np.stack(scores)
    return np.argsort(table.min(0) - table.max(0), kind="stable")


def _chunk(archive: Any, sentences: Sequence[Sentence], numbers: Sequence[int]) -> str:
    """A head of JSON, a zero, and the weights of its sentences, row by row."""
    heads, weights = [], []
    for number in numbers:
        alignment, sentence = archive[str(number)], sentences[number]
        if alignment.ndim != 2:
            raise ValueError
        as_said = [*sentence.hypothesis.split(), SPECIAL[END]] == sentence.words
        heads.append([*alignment.shape, None if as_said else sentence.words])
        weights.append(as_bytes(alignment))
    head = json.dumps(heads, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return deflated(b"\0".join([head, b"".join(weights)]))


def as_bytes(weights: np.ndarray) -> bytes:
    weights = np.nan_to_num(weights.astype(np.float32)).clip(0, 1)
    return np.where(weights < FAINT, 0, weights * 255).round().astype(np.uint8).tobytes()
