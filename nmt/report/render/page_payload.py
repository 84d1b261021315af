"""Pack sentences and alignments into a page: JSON or bytes, compressed, in base64.

The browser unpacks only what it shows. Alignments come in chunks, first the sentences on which the runs differ most,
as many as there is room for.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt.data.vocabulary import END, SPECIAL
from nmt.report.load.alignments import open_alignments, read_alignments
from nmt.report.load.evaluated_runs import EvaluatedRun
from nmt.report.load.evaluation import Sentence

ALIGNMENT_CHUNK = 25  # sentences
HYPOTHESIS_CHUNK = 250  # sentences
BLEU_STEPS = 2  # of sentence BLEU, to one point


def pack(content: Any) -> str:
    """Pack a JSON value."""
    return _compress(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def _compress(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def pack_hypotheses(hypotheses: Sequence[Sequence[str]]) -> list[str]:
    """Pack the translations of all runs, sentence by sentence, because similar texts compress well."""
    rows = list(zip(*hypotheses, strict=True))
    return [pack(rows[start : start + HYPOTHESIS_CHUNK]) for start in range(0, len(rows), HYPOTHESIS_CHUNK)]


def pack_scores(scores: np.ndarray) -> str:
    """Pack the sentence BLEU of a run, one byte for each sentence."""
    return base64.b64encode((scores * BLEU_STEPS).round().astype(np.uint8).tobytes()).decode()


def pack_alignments(runs: Sequence[EvaluatedRun], max_bytes: float) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Read and pack alignments until they take `max_bytes`; return them, and the notes of each run.

    `order` lists the sentences that have alignments; `runs` has the chunks of each run, or null if it has none.
    """
    archives, notes = map(list, zip(*(open_alignments(run.evaluation) for run in runs), strict=True))
    chunks: list[list[str] | None] = [None if archive is None else [] for archive in archives]
    scores = np.stack([run.evaluation.sentence_bleu for run in runs])
    order, count = np.argsort(scores.min(0) - scores.max(0), kind="stable"), 0
    while count < len(order) and max_bytes > 0 and chunks.count(None) < len(chunks):
        numbers = order[count : count + ALIGNMENT_CHUNK].tolist()
        count += len(numbers)
        for place, (run, archive) in enumerate(zip(runs, archives, strict=True)):
            if chunks[place] is not None:
                weights, lost = read_alignments(archive, numbers)
                if weights is None:
                    chunks[place], notes[place] = None, lost
                else:
                    chunks[place].append(_pack_chunk([run.evaluation.sentences[one] for one in numbers], weights))
                    max_bytes -= len(chunks[place][-1])
    return {"order": order[:count].tolist(), "together": ALIGNMENT_CHUNK, "runs": chunks}, notes


def _pack_chunk(sentences: Sequence[Sentence], weights: Sequence[np.ndarray]) -> str:
    """Pack a JSON head, a zero byte, and the weights of the sentences, row by row."""
    heads = []
    for sentence, alignment in zip(sentences, weights, strict=True):
        is_split_at_spaces = [*sentence.hypothesis.split(), SPECIAL[END]] == sentence.words
        heads.append([*alignment.shape, None if is_split_at_spaces else sentence.words])
    head = json.dumps(heads, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return _compress(b"\0".join([head, b"".join(alignment.tobytes() for alignment in weights)]))
