"""Read traces.npz, what the parts of a model show in each translated sentence, a few sentences at a time."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.npyio import NpzFile

from nmt.report.load.alignments import open_archive
from nmt.report.load.evaluation import Evaluation

LOSS = "no traces; evaluate it again with traces=true"
MAX_CELLS, MAX_NUMBERS = 1_000, 2**21  # of a memory, and in all traces of a sentence

Traces = dict[str, np.ndarray]  # of a sentence, by name


def open_traces(evaluation: Evaluation) -> tuple[NpzFile | None, tuple[str, ...]]:
    """Open the traces of a run on a test set; if they cannot be read, return None and a note."""
    if not evaluation.traces.exists():
        return None, ()
    return open_archive(evaluation.traces, LOSS)


def read_traces(
    archive: NpzFile, evaluation: Evaluation, numbers: Sequence[int]
) -> tuple[list[Traces] | None, tuple[str, ...]]:
    """Return the traces of each sentence; if one cannot be read, return None and a note."""
    names = list(dict.fromkeys(key.rpartition("/")[0] for key in archive.files))
    try:
        return [_read_sentence(archive, evaluation, names, number) for number in numbers], ()
    except Exception as error:  # a damaged archive raises errors of many types
        return None, (f"traces.npz is damaged ({type(error).__name__}): {LOSS}",)


def _read_sentence(archive: NpzFile, evaluation: Evaluation, names: Sequence[str], number: int) -> Traces:
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
