"""Pack sentences, alignments and traces into a page: JSON or bytes, compressed, in base64.

The browser unpacks only what it shows. Alignments come in chunks, first the sentences on which the runs differ most,
as many as there is room for.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nmt.data.vocabulary import END, SPECIAL
from nmt.evaluation.stored_arrays import (
    ForcedAlignment,
    SentenceArrays,
    Traces,
    open_alignments,
    open_forced,
    open_traces,
)
from nmt.evaluation.stored_evaluation import Sentence
from nmt.report.load.evaluated_runs import EvaluatedRun
from nmt.system.files import dump_json
from nmt.translate.layers import to_layers

ALIGNMENT_CHUNK = 25  # sentences
HYPOTHESIS_CHUNK = 250  # sentences
LAYER_DIGITS = 3
BLEU_STEPS = 2  # of sentence BLEU, to one point


def pack(content: Any) -> str:
    """Pack a JSON value."""
    return _compress(dump_json(content, separators=(",", ":")).encode())


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
    """Read and pack alignments and traces until they take `max_bytes`; return them, and the notes of each run.

    `order` lists the sentences that have alignments; `runs` has the chunks of each run, `layers` those of its traces,
    and `forced` those of its references, or null if it has none.
    """
    evaluations = [run.evaluation for run in runs]
    alignments = [_Chunks(open_alignments(one), one.sentences, _pack_weights) for one in evaluations]
    layers = [_Chunks(open_traces(one), one.sentences, _pack_layers) for one in evaluations]
    forced = [_Chunks(open_forced(one), one.sentences, _pack_forced) for one in evaluations]
    scores = np.stack([one.sentence_bleu for one in evaluations])
    order, count = np.argsort(scores.min(0) - scores.max(0), kind="stable"), 0
    while count < len(order) and max_bytes > 0 and any(one.chunks is not None for one in (*alignments, *forced)):
        numbers = order[count : count + ALIGNMENT_CHUNK].tolist()
        count += len(numbers)
        max_bytes -= sum(one.add(numbers) for one in (*alignments, *layers, *forced))
    content = {
        "order": order[:count].tolist(),
        "together": ALIGNMENT_CHUNK,
        "runs": [one.chunks for one in alignments],
        "layers": [one.chunks for one in layers],
        "forced": [one.chunks for one in forced],
    }
    return content, [
        sum((one.arrays.notes for one in of_run), ()) for of_run in zip(alignments, layers, forced, strict=True)
    ]


class _Chunks:
    """The packed sentences of a file of a run; `chunks` is None if the file cannot be read."""

    def __init__(self, arrays: SentenceArrays, sentences: Sequence[Sentence], pack_sentences: Callable[..., str]):
        self.arrays, self.sentences, self.pack_sentences = arrays, sentences, pack_sentences
        self.chunks: list[str] | None = None if arrays.archive is None else []

    def add(self, numbers: Sequence[int]) -> int:
        """Add a chunk of sentences, and return its size."""
        content = self.arrays.read(numbers)
        if content is None:
            self.chunks = None
            return 0
        chunk = self.pack_sentences(content, [self.sentences[number] for number in numbers])
        self.chunks.append(chunk)
        return len(chunk)


def _pack_weights(weights: Sequence[np.ndarray], sentences: Sequence[Sentence]) -> str:
    return _pack_chunk(list(map(_list_words, sentences)), weights)


def _list_words(sentence: Sentence) -> list[str] | None:
    """Return the words of a translation; None if they are those between spaces, which the page has."""
    is_split_at_spaces = [*sentence.hypothesis.split(), SPECIAL[END]] == sentence.words
    return None if is_split_at_spaces else sentence.words


def _pack_forced(forced: Sequence[ForcedAlignment], _: Sequence[Sentence]) -> str:
    links = [[[*map(int, place), float(one.gold[tuple(place)])] for place in np.argwhere(one.gold)] for one in forced]
    return _pack_chunk(links, [one.weights for one in forced])


def _pack_layers(traces: Sequence[Traces], _: Sequence[Sentence]) -> str:
    return pack([[layer.to_dict(LAYER_DIGITS) for layer in to_layers(sentence)] for sentence in traces])


def _pack_chunk(details: Sequence[Any], weights: Sequence[np.ndarray]) -> str:
    """Pack a JSON head with the shape and the details of each sentence, a zero byte, and the weights row by row."""
    heads = [[*alignment.shape, detail] for detail, alignment in zip(details, weights, strict=True)]
    head = dump_json(heads, separators=(",", ":")).encode()
    return _compress(b"\0".join([head, b"".join(alignment.tobytes() for alignment in weights)]))
