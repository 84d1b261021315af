"""Forced decoding: score or trace given translations with the same step that a search makes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from nmt.data.batches import pad_rows
from nmt.data.vocabulary import PAD, START
from nmt.model.translator import Examples
from nmt.search.aligned_words import rows_of_words
from nmt.search.beam import Hypothesis, Searchable


class ForcedScores(NamedTuple):
    """Scores of given translations; the last step is the end symbol, later steps are 0."""

    word_scores: Float[Tensor, "target batch"]  # log-probability of each given word
    alignment: Float[Tensor, "target batch source"]


@torch.inference_mode()
def force_decode(model: Searchable, batch: Examples) -> ForcedScores:
    """Score the targets of a batch word by word."""
    targets = torch.zeros_like(batch.target_input)
    is_word = torch.zeros_like(targets, dtype=torch.bool)
    targets.view(-1)[batch.target_index], is_word.view(-1)[batch.target_index] = batch.target_words, True
    bound, state = model.begin(model.encode(batch.source, batch.source_lengths))
    scores, alignments = [], []
    for words, next_words, counts in zip(batch.target_input, targets, is_word, strict=True):
        logits, trace, state = model.next(words, state, bound)
        log_probabilities = logits.float().log_softmax(1)
        scores.append(log_probabilities.gather(1, next_words[:, None])[:, 0] * counts)
        alignments.append(trace["alignment"].float() * counts[:, None])
    return ForcedScores(torch.stack(scores), torch.stack(alignments))


def add_traces(
    model: Searchable, source: Tensor, lengths: Tensor, hypotheses: Sequence[Hypothesis], aligned_word: str
) -> list[Hypothesis]:
    """Return the hypotheses with what the model's parts show while they produce them: see `trace_translations`.

    Args:
        model: The model or ensemble.
        source: The padded source words of each hypothesis.
        lengths: The lengths of the sources, on the CPU.
        hypotheses: The hypotheses.
        aligned_word: The word that a step belongs to, as in `Search`.
    """
    traces = trace_translations(model, source, lengths, [hypothesis.words for hypothesis in hypotheses])
    traced = []
    for hypothesis, trace in zip(hypotheses, traces, strict=True):
        steps = len(hypothesis.alignment)  # of which the end symbol may not be one
        trace = {name: rows_of_words(values[:steps], aligned_word) for name, values in trace.items()}
        traced.append(hypothesis._replace(trace=hypothesis.trace | trace))
    return traced


@torch.inference_mode()
def trace_translations(
    model: Searchable,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    translations: Sequence[np.ndarray],
) -> list[dict[str, np.ndarray]]:
    """Return what the model's parts show while they produce each translation and its end symbol.

    Args:
        model: The model or ensemble.
        source: The padded source words.
        lengths: The lengths of the sources, on the CPU.
        translations: The words of each translation, without the end symbol.

    Returns:
        The traces of each translation but `alignment`, by name. Their dimensions say what they belong to:
        (step,): a source position, from 1.
        (step, source): numbers of the source positions.
        (step, 1, cell): numbers beside the source, such as those of memory cells.
        A vector is one number: the root mean square of its change since the first step.
        A name in an ensemble ends with the number of the member, as in `coverage_2`.
    """
    source = pad(source, (0, 1), value=PAD)  # because a source of one position would look like values beside the source
    words = torch.from_numpy(pad_rows([np.append(START, words) for words in translations])[0]).to(source.device)
    bound, state = model.begin(model.encode(source, lengths))
    first: dict[str, Tensor] = {}
    steps = []
    for column in words.unbind(1):
        _, trace, state = model.step(column, state, bound)
        first = first or trace
        others = {name: values.float() for name, values in trace.items() if name != "alignment"}
        steps.append({name: _to_numbers(values, first[name], source.shape[1]) for name, values in others.items()})
    traces = {name: torch.stack([step[name] for step in steps], 1).cpu().numpy() for name in steps[0]}
    sizes = [(len(words) + 1, int(length)) for words, length in zip(translations, lengths, strict=True)]
    return [
        {
            name: values[row, :rows, :columns] if values.ndim == 3 else values[row, :rows]
            for name, values in traces.items()
        }
        for row, (rows, columns) in enumerate(sizes)
    ]


def _to_numbers(values: Tensor, first: Tensor, source_size: int) -> Tensor:
    """Return (N,), (N, source) or (N, 1, cell): each vector becomes its change since the first step."""
    if values.ndim == 1:
        return values
    kept = 2 if values.shape[1] == source_size else 3  # dimensions that are no vector
    if values.ndim <= kept:
        return values if values.ndim == kept else values[:, :, None]
    vectors = values.flatten(kept)
    return vectors[..., 0] if vectors.shape[-1] == 1 else (vectors - first.flatten(kept)).square().mean(-1).sqrt()
