"""Alignments over words from alignments over pieces."""

import numpy as np

from nmt.translate.alignment import format_pharaoh, link_words, merge_pieces, merge_trace


def test_source_pieces_are_summed_and_target_pieces_averaged():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.1, 0.1, 0.8]])
    words = merge_pieces(weights, source_words=[0, 0, 1], target_words=[0, 0, 1])
    np.testing.assert_allclose(words, [[0.625, 0.375], [0.2, 0.8]])
    assert merge_pieces(weights, [0, 1, 2], [0, 1, 2]) is weights


def test_each_target_word_is_linked_to_the_source_word_with_the_most_weight():
    weights = np.array([[0.2, 0.8], [0.7, 0.3], [0.0, 0.0]])
    assert link_words(weights) == [(1, 0), (0, 1)]
    assert format_pharaoh(link_words(weights)) == "1-0 0-1"


def test_traces_keep_the_last_target_piece_and_the_mean_of_source_pieces():
    pieces = {"source_words": [0, 0, 1], "target_words": [0, 0, 1]}
    numbers = np.array([[0.1, 0.1, 0.1], [0.2, 0.4, 0.8], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(merge_trace(numbers, **pieces), [[0.3, 0.8], [1.5, 3.0]])
    cells = numbers[:, None]
    np.testing.assert_array_equal(merge_trace(cells, **pieces), cells[1:])
    # pieces 1 and 2 are the halves of word 1, whose middle is 1.5; piece 3 is word 2
    np.testing.assert_allclose(merge_trace(np.array([9.0, 1.5, 3.0]), **pieces), [1.0, 2.0])
    np.testing.assert_allclose(merge_trace(np.array([9.0, 0.0, 1.0]), **pieces), [0.5, 0.75])
    words = {"source_words": [0, 1, 2], "target_words": [0, 1, 2]}
    for values in (numbers, cells, np.array([0.0, 2.5, 3.0])):
        np.testing.assert_array_equal(merge_trace(values, **words), values)
