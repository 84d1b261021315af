"""BLEU by source length against the scores of sentences selected by hand."""

import numpy as np
import pytest

from nmt.evaluation.bleu import corpus_bleu, sentence_statistics
from nmt.evaluation.by_length import (
    BOUNDS,
    bucket_names,
    compare_buckets,
    compare_longer,
    describe_buckets,
    select_by_length,
    select_longer,
)
from nmt.evaluation.significance import MIN_SENTENCES, draws

REFERENCES = ["a b c d e", "f g h i j k", "l m n o p", "q r s t u v w", "a b c d"]
HYPOTHESES = ["a b c d x", "f g h i", "l m n o p p p", "", "a b c d"]
LENGTHS = [10, 3, 11, 61, 20]


def by_length(lengths, statistics, **drawing):
    return describe_buckets(select_by_length(lengths), statistics, **drawing)


def longer_than(lengths, statistics, bounds=(0, *BOUNDS), **drawing):
    return describe_buckets(select_longer(lengths, bounds), statistics, **drawing)


def statistics_of(hypotheses, references):
    return sentence_statistics(hypotheses, references, tokenize="none", lowercase=False)[None]


def test_bound_is_the_last_length_of_its_bucket_and_empty_ones_are_left_out():
    buckets = by_length(LENGTHS, statistics_of(HYPOTHESES, [REFERENCES]))
    assert [(bucket.name, bucket.sentences) for bucket in buckets] == [("1–10", 2), ("11–20", 2), (">60", 1)]
    assert buckets[0].bleu == pytest.approx(corpus_bleu(HYPOTHESES[:2], REFERENCES[:2]).score)
    assert buckets[1].bleu == pytest.approx(
        corpus_bleu([HYPOTHESES[2], HYPOTHESES[4]], [REFERENCES[2], REFERENCES[4]]).score
    )
    assert [bucket.words for bucket in buckets] == [(5 + 4) / 2, (7 + 4) / 2, 0]
    assert [bucket.reference_words for bucket in buckets] == [(5 + 6) / 2, (5 + 4) / 2, 7]
    assert [bucket.length_ratio for bucket in buckets] == pytest.approx([9 / 11, 11 / 9, 0])


def test_source_without_words_is_in_no_bucket():
    lengths, statistics = [0, 0, 11, 61, 20], statistics_of(HYPOTHESES, [REFERENCES])
    assert [(bucket.name, bucket.sentences) for bucket in by_length(lengths, statistics)] == [("11–20", 2), (">60", 1)]
    assert longer_than(lengths, statistics)[0].sentences == 3


def test_long_sentences_are_in_the_buckets_of_all_lower_bounds():
    buckets = longer_than(LENGTHS, statistics_of(HYPOTHESES, [REFERENCES]))
    assert [(bucket.name, bucket.sentences) for bucket in buckets] == [
        *((">0", 5), (">10", 3), (">20", 1), (">30", 1), (">40", 1), (">50", 1), (">60", 1))
    ]
    assert buckets[0].bleu == pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES).score)
    assert buckets[1].bleu == pytest.approx(corpus_bleu(HYPOTHESES[2:], REFERENCES[2:]).score)


def test_intervals_are_percentiles_of_resampled_texts():
    hypotheses, references = HYPOTHESES[:3] * 7, REFERENCES[:3] * 7
    (bucket,) = by_length([5] * 21, statistics_of(hypotheses, [references]), resamples=200, seed=3)
    scores = []
    for drawn in draws(21, 200, 3).astype(int):
        chosen = [index for index, times in enumerate(drawn) for _ in range(times)]
        scores.append(corpus_bleu([hypotheses[i] for i in chosen], [references[i] for i in chosen]).score)
    assert (bucket.low, bucket.high) == pytest.approx(tuple(np.percentile(scores, (2.5, 97.5))))
    assert bucket.low < bucket.bleu < bucket.high
    assert [bucket] == by_length([5] * 21, statistics_of(hypotheses, [references]), resamples=200, seed=3)


def test_several_runs_give_the_mean_over_runs():
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"]
    both = np.concatenate([statistics_of(lines * 10, [REFERENCES * 10]) for lines in (HYPOTHESES, others)])
    bucket, *_ = by_length(LENGTHS * 10, both, resamples=50)
    single = [by_length(LENGTHS * 10, run[None], resamples=50)[0] for run in both]
    assert bucket.bleu == pytest.approx((single[0].bleu + single[1].bleu) / 2)
    assert bucket.words == (5 + 4 + 5 + 2) / 4
    assert bucket.length_ratio == pytest.approx((9 + 7) / (11 + 11))
    assert single[1].low < bucket.low < bucket.high <= max(one.high for one in single)


def test_differences_in_a_bucket_come_from_the_same_resamples():
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"]
    baseline, other = (statistics_of(lines * 10, [REFERENCES * 10]) for lines in (HYPOTHESES, others))
    systems = {"baseline": baseline, "other": other}
    rows = compare_buckets(select_by_length(LENGTHS * 10), baseline, systems, resamples=50, seed=3)
    assert [bucket for bucket, _ in rows["other"]] == by_length(LENGTHS * 10, other, resamples=50, seed=3)
    (_, first), *_, (_, last) = rows["other"]
    in_bucket = [index for index, length in enumerate(LENGTHS * 10) if length <= 10]
    scores = []
    for times in draws(len(in_bucket), 50, 3).astype(int):
        drawn = np.repeat(in_bucket, times)
        references = [(REFERENCES * 10)[index] for index in drawn]
        scores.append(
            [corpus_bleu([(lines * 10)[i] for i in drawn], references).score for lines in (others, HYPOTHESES)]
        )
    differences = [score - baseline_score for score, baseline_score in scores]
    expected = [corpus_bleu(lines[:2], REFERENCES[:2]).score for lines in (others, HYPOTHESES)]
    assert first.difference == pytest.approx(expected[0] - expected[1])
    assert (first.difference_low, first.difference_high) == pytest.approx(
        tuple(np.percentile(differences, (2.5, 97.5)))
    )
    assert (last.difference_low, last.difference_high) == (None, None)  # for ten sentences
    assert {difference for _, difference in rows["baseline"]} == {(0.0, 0.0, 0.0), (0.0, None, None)}


def test_bleu_of_longer_sentences_comes_with_the_difference_there():
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"]
    baseline, other = (statistics_of(lines, [REFERENCES]) for lines in (HYPOTHESES, others))
    buckets = select_longer(LENGTHS, (0, 10, 60))
    rows = compare_buckets(buckets, baseline, {"other": other}, resamples=50, seed=3)["other"]
    assert [bucket for bucket, _ in rows] == longer_than(LENGTHS, other, bounds=(0, 10, 60), resamples=50, seed=3)
    for (_, difference), chosen in zip(rows, ([0, 1, 2, 3, 4], [2, 3, 4], [3]), strict=True):
        bleu, base = (
            corpus_bleu([lines[i] for i in chosen], [REFERENCES[i] for i in chosen]).score
            for lines in (others, HYPOTHESES)
        )
        assert difference == pytest.approx((bleu - base, None, None))


def test_gain_on_longer_sentences_is_relative_to_all_other_sentences():
    lengths = [4, 7, 12, 15, 25] * 10
    hypotheses, references = HYPOTHESES * 10, REFERENCES * 10
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"] * 10
    baseline, other = (statistics_of(lines, [references]) for lines in (hypotheses, others))
    (first, second) = compare_longer(lengths, baseline, {"other": other}, bounds=(10, 20, 30), resamples=40, seed=3)[
        "other"
    ]
    assert [(one.than, one.sentences) for one in (first, second)] == [(10, 30), (20, 10)]

    def gain(chosen: list[int]) -> float:
        chosen_references = [references[index] for index in chosen]
        better, base = (
            corpus_bleu([lines[i] for i in chosen], chosen_references).score for lines in (others, hypotheses)
        )
        return better - base

    buckets = [[i for i, length in enumerate(lengths) if low < length <= low + 10] for low in (0, 10, 20)]
    drawn = [draws(len(inside), 40, 3 + place).astype(int) for place, inside in enumerate(buckets)]
    samples = []
    for number in range(40):
        resampled = [np.repeat(inside, times[number]).tolist() for inside, times in zip(buckets, drawn, strict=True)]
        samples.append(gain(resampled[1] + resampled[2]) - gain(resampled[0]))
    assert first.difference == pytest.approx(gain(buckets[1] + buckets[2]) - gain(buckets[0]))
    assert (first.difference_low, first.difference_high) == pytest.approx(tuple(np.percentile(samples, (2.5, 97.5))))
    assert second.difference == pytest.approx(gain(buckets[2]) - gain(buckets[0] + buckets[1]))
    assert (second.difference_low, second.difference_high) == (None, None)  # for ten sentences


def test_gain_needs_sentences_on_both_sides_and_skips_empty_sources():
    statistics = statistics_of(["a b c d"] * 60, [["a b c d"] * 60])
    assert compare_longer([5] * 60, statistics, {"other": statistics}) == {"other": []}
    lengths = [0] * 20 + [5] * 20 + [15] * 20
    (gain,) = compare_longer(lengths, statistics, {"other": statistics}, resamples=20)["other"]
    assert gain == (10, 20, 0, 0, 0)


@pytest.mark.parametrize("sentences", [1, MIN_SENTENCES - 1])
def test_few_sentences_have_no_interval(sentences):
    (bucket,) = by_length([7] * sentences, statistics_of(["a b c d"] * sentences, [["a b c d"] * sentences]))
    assert (bucket.name, bucket.bleu, bucket.low, bucket.high) == ("1–10", pytest.approx(100), None, None)


def test_reference_words_are_those_of_the_closest_reference():
    (bucket,) = by_length([7, 7], statistics_of(["a b c", "d"], [["a b", "d"], ["a b c d e f", "d d d"]]))
    assert bucket.reference_words == (2 + 1) / 2


def test_bucket_names_are_ranges_of_values():
    assert bucket_names((10, 20), first=1) == ["1–10", "11–20", ">20"]
    assert bucket_names((0, 1, 2, 5), first=0) == ["0", "1", "2", "3–5", ">5"]


def test_wrong_lengths_are_errors():
    with pytest.raises(IndexError, match="boolean index did not match"):
        by_length([1], statistics_of(["a", "b"], [["a", "b"]]))
