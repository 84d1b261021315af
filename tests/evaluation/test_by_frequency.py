"""Words by frequency against counts by hand."""

import pytest

from nmt.evaluation.by_frequency import by_frequency

COUNTS = {"the": 5000, "cat": 4, "sat": 4, "mat": 1, "never": 0}


def test_words_match_within_a_sentence_as_often_as_in_both_texts():
    hypotheses = [["the", "the", "cat", "sat"], ["mat", "unseen"]]
    references = [["the", "cat", "sat", "mat"], ["sat", "unseen", "unseen", "never"]]
    buckets = {bucket.name: bucket for bucket in by_frequency(hypotheses, references, COUNTS)}
    assert list(buckets) == ["0", "1", "3–5", ">1000"]
    assert buckets["0"] == pytest.approx(("0", 3, 1, 1, 100.0, 100 / 3, 50.0))
    assert buckets["1"] == ("1", 1, 1, 0, 0.0, 0.0, 0.0)  # mat is in both texts, but in different sentences
    assert buckets["3–5"] == pytest.approx(("3–5", 3, 2, 2, 100.0, 200 / 3, 80.0))
    assert buckets[">1000"] == pytest.approx((">1000", 1, 2, 1, 50.0, 100.0, 200 / 3))


def test_buckets_sum_to_the_words_of_the_texts():
    hypotheses, references = [["the"] * 3, [], ["x"]], [["the", "mat"], ["cat"], []]
    buckets = by_frequency(hypotheses, references, COUNTS, bounds=(1, 4))
    assert [bucket.name for bucket in buckets] == ["0–1", "2–4", ">4"]
    assert sum(bucket.hypothesis_words for bucket in buckets) == 4
    assert sum(bucket.reference_words for bucket in buckets) == 3
    assert buckets[1][1:] == (1, 0, 0, 0.0, 0.0, 0.0)  # in the reference only


def test_empty_texts_have_no_buckets_and_lengths_must_match():
    assert by_frequency([], [], COUNTS) == []
    assert by_frequency([[]], [[]], COUNTS) == []
    with pytest.raises(ValueError, match="longer"):
        by_frequency([[]], [[], []], COUNTS)
