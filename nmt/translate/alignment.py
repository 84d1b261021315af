"""Alignments of words, from alignments of the pieces a model works with."""

import numpy as np


def to_words(weights: np.ndarray, source_words: list[int], target_words: list[int]) -> np.ndarray:
    """(target pieces, source pieces) → (target words, source words), given the word each piece belongs to.

    A source word gets its pieces' weights together; a target word the mean of its pieces'.
    """
    if len(source_words) == source_words[-1] + 1 and len(target_words) == target_words[-1] + 1:
        return weights  # every piece is a word
    source = np.eye(source_words[-1] + 1, dtype=weights.dtype)[source_words]
    target = np.eye(target_words[-1] + 1, dtype=weights.dtype)[target_words]
    return (target / target.sum(0)).T @ weights @ source


def of_words(piece_values: np.ndarray, words: list[int]) -> np.ndarray:
    """The sum over the pieces of each word."""
    return np.bincount(words, weights=piece_values)


def links(weights: np.ndarray) -> list[tuple[int, int]]:
    """One link (source, target) for each target word: to the source word with the most weight (Luong 2015 §5.4)."""
    return [(int(row.argmax()), target) for target, row in enumerate(weights) if row.max(initial=0.0) > 0.0]


def pharaoh(pairs: list[tuple[int, int]]) -> str:
    return " ".join(f"{source}-{target}" for source, target in pairs)
