"""Over- and under-translation against counts by hand."""

import numpy as np
import pytest

from nmt.evaluation.over_under_translation import (
    MEASURES,
    attention_entropy,
    compute_measures,
    count_errors,
    over_and_under_translation,
    unattended_words,
)


def repetition(hypotheses, references):
    rates = over_and_under_translation(hypotheses, references)
    return {name: value for name, value in rates.items() if name.startswith("repeated_")}


def test_words_are_counted_by_sentence_and_attention_by_source_word():
    hypotheses = [["a", "a", "b"], ["c"]]
    references = [["a", "b", "c"], ["c", "d", "e", "f", "g"]]
    alignments = [np.array([[0.9, 0.0], [0.1, 0.05], [0.0, 0.1]]), np.array([[0.5, 0.2, 0.3]])]
    counts = over_and_under_translation(hypotheses, references) | unattended_words(alignments)
    assert counts["words_too_often"] == pytest.approx(100 * 1 / 8)  # the second a
    assert counts["words_left_out"] == pytest.approx(100 * 5 / 8)  # c of the first; d, e, f, g of the second
    assert counts["source_unattended"] == pytest.approx(100 * 1 / 5)  # 0.05 + 0.1 < 0.2


def test_empty_text_has_no_errors():
    assert set((over_and_under_translation([], []) | unattended_words([]) | attention_entropy([])).values()) == {0.0}


def test_entropy_is_the_log_of_the_words_that_share_attention():
    hard, two = np.array([[0.0, 1.0, 0.0]]), np.array([[0.1, 0.0, 0.1], [0.0, 0.0, 0.0]])
    assert attention_entropy([hard]) == {"attention_entropy": 0.0}
    # one of three words attends equally to two; a fourth attends to none, because its window is outside
    assert attention_entropy([hard, two, hard]) == pytest.approx({"attention_entropy": np.log(2) / 3})
    assert attention_entropy([np.full((5, 7), 1 / 7, np.float32)])["attention_entropy"] == pytest.approx(np.log(7))


def test_ngrams_repeated_more_often_than_in_the_reference_count():
    hypotheses = [["the", "a", "b", "a", "b", "a", "b", "the"], ["c", "c", "d", "e"]]
    references = [["the", "a", "b", "the"], ["c", "c", "d", "f", "f", "f"]]
    counts = repetition(hypotheses, references)
    # repeated in words 4 to 7: a a b b, `a b` twice, `b a`, `a b a`, `b a b`, `a b a b`;
    # `the` and `c` occur twice in the references too
    assert counts == pytest.approx(
        {
            "repeated_1grams": 100 * 4 / 10,
            "repeated_2grams": 100 * 3 / 10,
            "repeated_3grams": 100 * 2 / 10,
            "repeated_4grams": 100 * 1 / 10,
            "repeated_words_in_a_row": 4.0,
        }
    )


def test_first_occurrence_is_no_repetition_and_passages_are_separate():
    counts = repetition([["x", "y", "y", "z", "x", "y"]], [["z", "x", "u"]])
    # the second y, and the second `x y`; x occurs once in the reference
    assert counts["repeated_1grams"] == pytest.approx(100 * 3 / 3)
    assert counts["repeated_2grams"] == pytest.approx(100 * 1 / 3)
    assert counts["repeated_words_in_a_row"] == pytest.approx((1 + 2) / 2)


def test_phrase_is_repeated_even_if_its_words_are_allowed_twice():
    counts = repetition([["a", "b", "a", "b"]], [["a", "c", "b", "a", "b"]])
    assert counts["repeated_1grams"] == 0
    assert counts["repeated_2grams"] == pytest.approx(100 * 1 / 5)
    assert counts["repeated_words_in_a_row"] == 2


def test_text_without_repetition_scores_zero_and_lengths_must_match():
    assert set(repetition([[], ["a"]], [["a"], []]).values()) == {0.0}
    with pytest.raises(ValueError, match=r"longer|shorter"):
        over_and_under_translation([[]], [[], []])


def test_rates_come_from_the_summed_counts_of_sentences():
    hypotheses = [["the", "a", "b", "a", "b", "a", "b", "the"], ["c", "c", "d", "e"]]
    references = [["the", "a", "b", "the"], ["c", "c", "d", "f", "f", "f"]]
    counts = np.array([count_errors(*words) for words in zip(hypotheses, references, strict=True)])
    assert counts.tolist() == [[4, 0, 4, 3, 2, 1, 4], [1, 3, 0, 0, 0, 0, 6]]
    rates = over_and_under_translation(hypotheses, references)
    assert compute_measures(counts.sum(0)).tolist() == pytest.approx([rates[name] for name in MEASURES])
