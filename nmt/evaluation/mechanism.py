"""Figures of a mechanism, from the traces of translations; the kind of a trace selects the figures."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt.evaluation.test_set import TestSet
from nmt.translate.layers import to_layers
from nmt.translate.text_translator import Translation

GROUPS = 5  # of equal size, by value
MAX_WORDS = 500  # source words that are listed, the most frequent ones


class Traced(NamedTuple):
    """A trace of one translation; `links` holds the gold links of each source word, None if unknown."""

    translation: Translation
    values: np.ndarray  # of a `Layer`
    links: np.ndarray | None


def compute_figures(translations: Sequence[Translation], links: Sequence[np.ndarray | None]) -> dict[str, Any]:
    """Return the content of mechanism.json: figures of the attention, and of each trace by its name."""
    by_name: dict[str, dict[str, list[Traced]]] = defaultdict(lambda: defaultdict(list))
    for translation, sentence_links in zip(translations, links, strict=True):
        for layer in to_layers(translation.traces):
            by_name[layer.name][layer.kind].append(Traced(translation, layer.values, sentence_links))
    figures = {}
    for name, kinds in by_name.items():
        kind = max(kinds, key=lambda kind: len(kinds[kind]))  # because a single step may look like another kind
        figures[name] = {"kind": kind, "sentences": len(kinds[kind]), **FIGURES[kind](kinds[kind])}
    weights = [translation.word_alignment() for translation in translations]
    return {"attention_received": relate_to_attention([one.cumsum(0) for one in weights], weights), "traces": figures}


def count_gold_links(test: TestSet, translations: Sequence[Translation]) -> Iterator[np.ndarray | None]:
    """Yield the number of gold links of each source word; None if there is no gold, or if it has other words."""
    is_split = test.alignments_words == "text"  # at blanks, and perhaps otherwise by the model
    for number, (pair, translation) in enumerate(zip(test.pairs, translations, strict=True)):
        words = translation.word_alignment().shape[1]
        if test.gold is None or (is_split and len(pair.source.split()) != words):
            yield None
        else:
            yield np.bincount([source for source, _ in test.gold[number].possible], minlength=words)


def relate_to_attention(values: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> dict[str, Any]:
    """Relate a value of a source word after a step to the attention that it gets in the next step (Tu 2016 §3.2).

    Args:
        values: (target, source) of each sentence.
        weights: (target, source) of each sentence, the attention.

    Returns:
        Their correlation, and the mean attention in groups of equal size, from low to high values.
    """
    before = np.concatenate(
        [np.zeros(0), *(one[: len(two) - 1].ravel() for one, two in zip(values, weights, strict=True))]
    )
    attention = np.concatenate([np.zeros(0), *(one[1:].ravel() for one in weights)])
    groups = np.array_split(np.argsort(before, kind="stable"), GROUPS)
    return {
        "correlation_with_next_attention": correlate(before, attention),
        "attention_by_value": [
            {"value": _mean(before[group]), "attention": _mean(attention[group]), "count": len(group)}
            for group in groups
            if len(group)
        ],
    }


def describe_map(traced: Sequence[Traced]) -> dict[str, Any]:
    """Return how the attention to a source word depends on its value in the step before."""
    weights = [one.translation.word_alignment() for one in traced]
    values = [one.values[:, : two.shape[1]] for one, two in zip(traced, weights, strict=True)]
    return relate_to_attention(values, weights)


def describe_numbers(traced: Sequence[Traced]) -> dict[str, Any]:
    """Return the mean of each source word, and by the number of its gold links."""
    by_word, by_links = defaultdict(list), defaultdict(list)
    for translation, values, links in traced:
        words = translation.source[: translation.word_alignment().shape[1]]
        for word, value in zip(words, values, strict=False):  # the end symbol may follow
            by_word[word].append(value)
        for count, value in zip(() if links is None else links.tolist(), values, strict=False):
            by_links[count].append(value)
    frequent = sorted(by_word.items(), key=lambda item: -len(item[1]))[:MAX_WORDS]
    pairs = [(count, value) for count, values in by_links.items() for value in values]
    return {
        "mean": _mean([value for values in by_word.values() for value in values]),
        "by_word": [{"word": word, "mean": _mean(values), "count": len(values)} for word, values in frequent],
        "correlation_with_gold_links": correlate(*zip(*pairs, strict=True)) if pairs else None,
        "by_gold_links": [
            {"links": count, "mean": _mean(values), "count": len(values)} for count, values in sorted(by_links.items())
        ],
    }


def describe_line(traced: Sequence[Traced]) -> dict[str, Any]:
    """Return how far a position lies from the mean position of the attention, where there is attention."""
    offsets = [np.zeros(0)]
    for translation, values, _ in traced:
        weights = translation.alignment
        total = weights.sum(1)
        mean = weights @ np.arange(1, weights.shape[1] + 1) / np.where(total > 0, total, 1)
        offsets.append((values - mean)[total > 0])
    offset = np.concatenate(offsets)
    return {"mean_distance": _mean(np.abs(offset)), "mean_offset": _mean(offset), "count": len(offset)}


def describe_cells(traced: Sequence[Traced]) -> dict[str, Any]:
    """Return mean, change from step to step, and mean of each cell; of weights that sum to one also the entropy."""
    values = np.concatenate([one.values for one in traced]).astype(float)
    changes = np.concatenate([np.abs(np.diff(one.values.astype(float), axis=0)) for one in traced])
    figures = {
        "mean": _mean(values),
        "mean_of_last_step": _mean([one.values[-1].mean() for one in traced]),
        "mean_change": _mean(changes),
        "by_cell": [_mean(column) for column in values.T],
    }
    if values.shape[1] == 1 or values.min() < 0 or not np.allclose(values.sum(1), 1, atol=0.01):
        return figures
    logs = np.log(values, where=values > 0, out=np.zeros_like(values))
    return figures | {
        "mean_entropy": _mean(-(values * logs).sum(1)),
        "largest_entropy": _round(np.log(values.shape[1])),
    }


FIGURES = {"map": describe_map, "numbers": describe_numbers, "line": describe_line, "cells": describe_cells}


def correlate(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None if there are too few values or they are all equal."""
    pairs = np.array([values, others], dtype=float)
    if pairs.shape[1] < 2 or (pairs == pairs[:, :1]).all(1).any():
        return None
    return _round(np.corrcoef(pairs)[0, 1])


def _mean(values: Sequence[float] | np.ndarray) -> float | None:
    return _round(np.mean(values, dtype=float)) if len(values) else None


def _round(value: float) -> float:
    return round(float(value), 4)
