"""Over- and under-translation, counted by hand."""

import numpy as np
import pytest

from nmt.evaluation.adequacy import over_and_under_translation


def test_words_are_counted_sentence_by_sentence_and_source_words_by_all_they_were_given():
    hypotheses = [["a", "a", "b"], ["c"]]
    references = [["a", "b", "c"], ["c", "d", "e", "f", "g"]]
    alignments = [np.array([[0.9, 0.0], [0.1, 0.05], [0.0, 0.1]]), np.array([[0.5, 0.2, 0.3]])]
    counts = over_and_under_translation(hypotheses, references, alignments)
    assert counts["words_too_often"] == pytest.approx(100 * 1 / 8)  # the second a
    assert counts["words_left_out"] == pytest.approx(100 * 5 / 8)  # c of the first; d, e, f, g of the second
    assert counts["source_unattended"] == pytest.approx(100 * 1 / 5)  # 0.05 + 0.1 < 0.2


def test_nothing_said_of_nothing_is_no_error():
    assert set(over_and_under_translation([], [], []).values()) == {0.0}
