"""Pack sentences, alignments and traces into a page: JSON or bytes, compressed, in base64.

The browser unpacks only what it shows. Alignments come in chunks, first the sentences on which the runs differ most,
as many as there is room for.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from nmt.data.vocabulary import END, SPECIAL
from nmt.report.load.alignments import open_alignments, open_forced, read_alignments, read_forced
from nmt.report.load.evaluated_runs import EvaluatedRun
from nmt.report.load.evaluation import Evaluation, Sentence
from nmt.report.load.traces import open_traces, read_traces
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
    alignments = [_Chunks(run.evaluation, open_alignments, _pack_weights) for run in runs]
    layers = [_Chunks(run.evaluation, open_traces, _pack_layers) for run in runs]
    forced = [_Chunks(run.evaluation, open_forced, _pack_forced) for run in runs]
    scores = np.stack([run.evaluation.sentence_bleu for run in runs])
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
    return content, [sum((one.notes for one in of_run), ()) for of_run in zip(alignments, layers, forced, strict=True)]


class _Chunks:
    """The packed sentences of a file of a run; `chunks` is None if the file cannot be read.

    Args:
        evaluation: The run on the test set.
        open_file: Return the opened file or None, and notes.
        pack_sentences: Return the packed sentences of these numbers or None, and notes.
    """

    def __init__(self, evaluation: Evaluation, open_file: Callable[..., Any], pack_sentences: Callable[..., Any]):
        self.evaluation, self.pack_sentences = evaluation, pack_sentences
        self.archive, self.notes = open_file(evaluation)
        self.chunks: list[str] | None = None if self.archive is None else []

    def add(self, numbers: Sequence[int]) -> int:
        """Add a chunk of sentences, and return its size."""
        if self.chunks is None:
            return 0
        chunk, lost = self.pack_sentences(self.archive, self.evaluation, numbers)
        if chunk is None:
            self.chunks, self.notes = None, lost
            return 0
        self.chunks.append(chunk)
        return len(chunk)


def _pack_weights(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[str | None, tuple[str, ...]]:
    weights, lost = read_alignments(archive, evaluation, numbers)
    words = [_list_words(evaluation.sentences[number]) for number in numbers]
    return None if weights is None else _pack_chunk(words, weights), lost


def _list_words(sentence: Sentence) -> list[str] | None:
    """Return the words of a translation; None if they are those between spaces, which the page has."""
    is_split_at_spaces = [*sentence.hypothesis.split(), SPECIAL[END]] == sentence.words
    return None if is_split_at_spaces else sentence.words


def _pack_forced(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[str | None, tuple[str, ...]]:
    forced, lost = read_forced(archive, evaluation, numbers)
    if forced is None:
        return None, lost
    links = [[[*map(int, place), float(one.gold[tuple(place)])] for place in np.argwhere(one.gold)] for one in forced]
    return _pack_chunk(links, [one.weights for one in forced]), lost


def _pack_layers(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[str | None, tuple[str, ...]]:
    traces, lost = read_traces(archive, evaluation, numbers)
    if traces is None:
        return None, lost
    return pack([[layer.to_dict(LAYER_DIGITS) for layer in to_layers(sentence)] for sentence in traces]), lost


def _pack_chunk(details: Sequence[Any], weights: Sequence[np.ndarray]) -> str:
    """Pack a JSON head with the shape and the details of each sentence, a zero byte, and the weights row by row."""
    heads = [[*alignment.shape, detail] for detail, alignment in zip(details, weights, strict=True)]
    head = dump_json(heads, separators=(",", ":")).encode()
    return _compress(b"\0".join([head, b"".join(alignment.tobytes() for alignment in weights)]))
