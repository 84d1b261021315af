"""Alignments of words from alignments of pieces."""

import numpy as np

from nmt.translate.alignment import links, pharaoh, to_words


def test_a_source_word_gets_its_pieces_weights_and_a_target_word_the_mean_of_its_pieces():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.1, 0.1, 0.8]])
    words = to_words(weights, source_words=[0, 0, 1], target_words=[0, 0, 1])
    np.testing.assert_allclose(words, [[0.625, 0.375], [0.2, 0.8]])
    assert to_words(weights, [0, 1, 2], [0, 1, 2]) is weights


def test_each_target_word_is_linked_to_the_source_word_with_the_most_weight():
    weights = np.array([[0.2, 0.8], [0.7, 0.3], [0.0, 0.0]])
    assert links(weights) == [(1, 0), (0, 1)]
    assert pharaoh(links(weights)) == "1-0 0-1"
