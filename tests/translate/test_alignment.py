"""Alignments over words from alignments over pieces."""

import numpy as np

from nmt.translate.alignment import format_pharaoh, link_words, merge_pieces


def test_source_pieces_are_summed_and_target_pieces_averaged():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.1, 0.1, 0.8]])
    words = merge_pieces(weights, source_words=[0, 0, 1], target_words=[0, 0, 1])
    np.testing.assert_allclose(words, [[0.625, 0.375], [0.2, 0.8]])
    assert merge_pieces(weights, [0, 1, 2], [0, 1, 2]) is weights


def test_each_target_word_is_linked_to_the_source_word_with_the_most_weight():
    weights = np.array([[0.2, 0.8], [0.7, 0.3], [0.0, 0.0]])
    assert link_words(weights) == [(1, 0), (0, 1)]
    assert format_pharaoh(link_words(weights)) == "1-0 0-1"
