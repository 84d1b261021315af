"""Alignments over words, from alignments over the pieces that a model works with."""

import numpy as np


def merge_pieces(weights: np.ndarray, source_words: list[int], target_words: list[int]) -> np.ndarray:
    """Return an alignment over words from an alignment over pieces.

    A source word gets the sum of its pieces' weights. A target word gets the mean over its pieces.

    Args:
        weights: (target pieces, source pieces).
        source_words: For each source piece the index of its word.
        target_words: For each target piece the index of its word.

    Returns:
        (target words, source words).
    """
    if len(source_words) == source_words[-1] + 1 and len(target_words) == target_words[-1] + 1:
        return weights  # every piece is a word
    source = np.eye(source_words[-1] + 1, dtype=weights.dtype)[source_words]
    target = np.eye(target_words[-1] + 1, dtype=weights.dtype)[target_words]
    return (target / target.sum(0)).T @ weights @ source


def merge_trace(values: np.ndarray, source_words: list[int], target_words: list[int]) -> np.ndarray:
    """Return a trace over words from a trace over pieces.

    A source word gets the mean of its pieces, a target word the value at its last piece. A source position becomes one
    among words: the first half of a word's pieces lies in its left half.

    Args:
        values: (target piece,): source positions; (target piece, source piece), or (target piece, 1, cell).
        source_words: For each source piece the index of its word.
        target_words: For each target piece the index of its word.
    """
    sizes = np.bincount(source_words)
    values = values[np.flatnonzero(np.diff(target_words, append=-1))]
    if len(source_words) == len(sizes) or values.ndim == 3:
        return values
    if values.ndim == 2:
        return values @ (np.eye(len(sizes), dtype=values.dtype) / sizes)[source_words]
    ends = np.cumsum(np.append(0.5, 1 / sizes[source_words]))  # of the pieces, among words
    return np.interp(values, np.arange(len(ends)) + 0.5, ends)


def link_words(weights: np.ndarray) -> list[tuple[int, int]]:
    """Link each target word to the source word with the most weight, as (source, target) (Luong 2015 §5.4)."""
    return [(int(row.argmax()), target) for target, row in enumerate(weights) if row.max(initial=0.0) > 0.0]


def format_pharaoh(links: list[tuple[int, int]]) -> str:
    """Return links in Pharaoh format, such as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)
