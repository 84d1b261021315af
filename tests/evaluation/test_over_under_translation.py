"""Over- and under-translation, counted by hand."""

import numpy as np
import pytest

from nmt.evaluation.over_under_translation import (
    MEASURES,
    attention_entropy,
    in_per_cent,
    over_and_under_translation,
    sentence_counts,
    unattended,
)


def repeated(hypotheses, references):
    found = over_and_under_translation(hypotheses, references)
    return {name: value for name, value in found.items() if name.startswith("repeated_")}


def test_words_are_counted_sentence_by_sentence_and_source_words_by_all_they_were_given():
    hypotheses = [["a", "a", "b"], ["c"]]
    references = [["a", "b", "c"], ["c", "d", "e", "f", "g"]]
    alignments = [np.array([[0.9, 0.0], [0.1, 0.05], [0.0, 0.1]]), np.array([[0.5, 0.2, 0.3]])]
    counts = over_and_under_translation(hypotheses, references) | unattended(alignments)
    assert counts["words_too_often"] == pytest.approx(100 * 1 / 8)  # the second a
    assert counts["words_left_out"] == pytest.approx(100 * 5 / 8)  # c of the first; d, e, f, g of the second
    assert counts["source_unattended"] == pytest.approx(100 * 1 / 5)  # 0.05 + 0.1 < 0.2


def test_nothing_said_of_nothing_is_no_error():
    assert set((over_and_under_translation([], []) | unattended([]) | attention_entropy([])).values()) == {0.0}


def test_attention_is_as_wide_as_the_number_of_words_that_share_it_whatever_weights_add_up_to():
    hard, two = np.array([[0.0, 1.0, 0.0]]), np.array([[0.1, 0.0, 0.1], [0.0, 0.0, 0.0]])
    assert attention_entropy([hard]) == {"attention_entropy": 0.0}
    # of three words one attends to two alike; a fourth, its window beyond the sentence, to none
    assert attention_entropy([hard, two, hard]) == pytest.approx({"attention_entropy": np.log(2) / 3})
    assert attention_entropy([np.full((5, 7), 1 / 7, np.float32)])["attention_entropy"] == pytest.approx(np.log(7))


def test_what_is_said_again_beyond_the_reference_is_repeated():
    hypotheses = [["the", "a", "b", "a", "b", "a", "b", "the"], ["c", "c", "d", "e"]]
    references = [["the", "a", "b", "the"], ["c", "c", "d", "f", "f", "f"]]
    counts = repeated(hypotheses, references)
    # a and b twice each; `a b` twice and `b a` once; `a b a` and `b a b` once each; `a b a b` once: words 4 to 7.
    # `the` and `c` are in the references twice
    assert counts == pytest.approx(
        {
            "repeated_1grams": 100 * 4 / 10,
            "repeated_2grams": 100 * 3 / 10,
            "repeated_3grams": 100 * 2 / 10,
            "repeated_4grams": 100 * 1 / 10,
            "repeated_words_in_a_row": 4.0,
        }
    )


def test_the_first_time_is_no_repetition_and_rows_are_counted_one_by_one():
    counts = repeated([["x", "y", "y", "z", "x", "y"]], [["z", "x", "u"]])
    # y after y, and `x y` (x is in the reference once, and said before)
    assert counts["repeated_1grams"] == pytest.approx(100 * 3 / 3)
    assert counts["repeated_2grams"] == pytest.approx(100 * 1 / 3)
    assert counts["repeated_words_in_a_row"] == pytest.approx((1 + 2) / 2)


def test_a_phrase_is_repeated_even_where_its_words_may_be():
    counts = repeated([["a", "b", "a", "b"]], [["a", "c", "b", "a", "b"]])
    assert counts["repeated_1grams"] == 0
    assert counts["repeated_2grams"] == pytest.approx(100 * 1 / 5)
    assert counts["repeated_words_in_a_row"] == 2


def test_nothing_repeated_is_zero_and_sentences_have_to_match():
    assert set(repeated([[], ["a"]], [["a"], []]).values()) == {0.0}
    with pytest.raises(ValueError, match=r"longer|shorter"):
        over_and_under_translation([[]], [[], []])


def test_sums_over_sentences_make_what_is_told_of_all():
    hypotheses = [["the", "a", "b", "a", "b", "a", "b", "the"], ["c", "c", "d", "e"]]
    references = [["the", "a", "b", "the"], ["c", "c", "d", "f", "f", "f"]]
    counts = np.array([sentence_counts(*words) for words in zip(hypotheses, references, strict=True)])
    assert counts.tolist() == [[4, 0, 4, 3, 2, 1, 4], [1, 3, 0, 0, 0, 0, 6]]
    told = over_and_under_translation(hypotheses, references)
    assert in_per_cent(counts.sum(0)).tolist() == pytest.approx([told[name] for name in MEASURES])
