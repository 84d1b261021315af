"""BLEU by source length against the scores of the sentences picked out by hand."""

import numpy as np
import pytest

from nmt.errors import ConfigurationError
from nmt.evaluation.bleu import corpus_bleu, sentence_statistics
from nmt.evaluation.by_length import (
    ENOUGH,
    bucket_names,
    by_length,
    compare_by_length,
    compare_longer,
    longer_than,
)
from nmt.evaluation.significance import draws

REFERENCES = ["a b c d e", "f g h i j k", "l m n o p", "q r s t u v w", "a b c d"]
HYPOTHESES = ["a b c d x", "f g h i", "l m n o p p p", "", "a b c d"]
LENGTHS = [10, 3, 11, 61, 20]


def counted(hypotheses, references):
    return sentence_statistics(hypotheses, references, tokenize="none", lowercase=False)[None]


def test_bounds_belong_to_the_bucket_they_name_and_empty_buckets_are_left_out():
    buckets = by_length(LENGTHS, counted(HYPOTHESES, [REFERENCES]))
    assert [(bucket.name, bucket.sentences) for bucket in buckets] == [("1–10", 2), ("11–20", 2), (">60", 1)]
    assert buckets[0].bleu == pytest.approx(corpus_bleu(HYPOTHESES[:2], REFERENCES[:2]).score)
    assert buckets[1].bleu == pytest.approx(
        corpus_bleu([HYPOTHESES[2], HYPOTHESES[4]], [REFERENCES[2], REFERENCES[4]]).score
    )
    assert [bucket.words for bucket in buckets] == [(5 + 4) / 2, (7 + 4) / 2, 0]
    assert [bucket.reference_words for bucket in buckets] == [(5 + 6) / 2, (5 + 4) / 2, 7]
    assert [bucket.length_ratio for bucket in buckets] == pytest.approx([9 / 11, 11 / 9, 0])


def test_a_source_without_a_word_is_in_no_bucket():
    lengths, told = [0, 0, 11, 61, 20], counted(HYPOTHESES, [REFERENCES])
    assert [(bucket.name, bucket.sentences) for bucket in by_length(lengths, told)] == [("11–20", 2), (">60", 1)]
    assert longer_than(lengths, told)[0].sentences == 3


def test_longer_sentences_are_in_all_buckets_before():
    buckets = longer_than(LENGTHS, counted(HYPOTHESES, [REFERENCES]))
    assert [(bucket.name, bucket.sentences) for bucket in buckets] == [
        *((">0", 5), (">10", 3), (">20", 1), (">30", 1), (">40", 1), (">50", 1), (">60", 1))
    ]
    assert buckets[0].bleu == pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES).score)
    assert buckets[1].bleu == pytest.approx(corpus_bleu(HYPOTHESES[2:], REFERENCES[2:]).score)


def test_intervals_are_those_of_texts_drawn_and_scored_anew():
    hypotheses, references = HYPOTHESES[:3] * 7, REFERENCES[:3] * 7
    (bucket,) = by_length([5] * 21, counted(hypotheses, [references]), resamples=200, seed=3)
    scores = []
    for drawn in draws(21, 200, 3):
        chosen = [index for index, times in enumerate(drawn) for _ in range(times)]
        scores.append(corpus_bleu([hypotheses[i] for i in chosen], [references[i] for i in chosen]).score)
    assert (bucket.low, bucket.high) == pytest.approx(tuple(np.percentile(scores, (2.5, 97.5))))
    assert bucket.low < bucket.bleu < bucket.high
    assert [bucket] == by_length([5] * 21, counted(hypotheses, [references]), resamples=200, seed=3)


def test_of_several_runs_the_mean_is_told():
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"]
    both = np.concatenate([counted(lines * 10, [REFERENCES * 10]) for lines in (HYPOTHESES, others)])
    bucket, *_ = by_length(LENGTHS * 10, both, resamples=50)
    alone = [by_length(LENGTHS * 10, own[None], resamples=50)[0] for own in both]
    assert bucket.bleu == pytest.approx((alone[0].bleu + alone[1].bleu) / 2)
    assert bucket.words == (5 + 4 + 5 + 2) / 4
    assert bucket.length_ratio == pytest.approx((9 + 7) / (11 + 11))
    assert alone[1].low < bucket.low < bucket.high <= max(one.high for one in alone)


def test_systems_are_set_apart_by_the_same_draws_in_each_bucket():
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"]
    own, other = (counted(lines * 10, [REFERENCES * 10]) for lines in (HYPOTHESES, others))
    systems = {"own": own, "other": other}
    found = compare_by_length(LENGTHS * 10, own, systems, resamples=50, seed=3)
    assert [bucket for bucket, _ in found["other"]] == by_length(LENGTHS * 10, other, resamples=50, seed=3)
    (_, first), *_, (_, last) = found["other"]
    in_bucket = [index for index, length in enumerate(LENGTHS * 10) if length <= 10]
    scores = []
    for times in draws(len(in_bucket), 50, 3):
        drawn = np.repeat(in_bucket, times)
        references = [(REFERENCES * 10)[index] for index in drawn]
        scores.append(
            [corpus_bleu([(lines * 10)[i] for i in drawn], references).score for lines in (others, HYPOTHESES)]
        )
    differences = [one - baseline for one, baseline in scores]
    whole = [corpus_bleu(lines[:2], REFERENCES[:2]).score for lines in (others, HYPOTHESES)]
    assert first.difference == pytest.approx(whole[0] - whole[1])
    assert (first.difference_low, first.difference_high) == pytest.approx(
        tuple(np.percentile(differences, (2.5, 97.5)))
    )
    assert (last.difference_low, last.difference_high) == (None, None)  # of ten sentences
    assert {apart for _, apart in found["own"]} == {(0.0, 0.0, 0.0), (0.0, None, None)}


def test_a_gain_on_longer_sentences_is_over_that_on_all_others():
    lengths = [4, 7, 12, 15, 25] * 10
    said, wanted = HYPOTHESES * 10, REFERENCES * 10
    others = ["a b c d e", "f g", "l m x", "q r s t", "a b"] * 10
    own, other = (counted(lines, [wanted]) for lines in (said, others))
    (first, second) = compare_longer(lengths, own, {"other": other}, bounds=(10, 20, 30), resamples=40, seed=3)["other"]
    assert [(one.than, one.sentences) for one in (first, second)] == [(10, 30), (20, 10)]

    def gain(chosen: list[int]) -> float:
        references = [wanted[index] for index in chosen]
        better, base = (corpus_bleu([lines[i] for i in chosen], references).score for lines in (others, said))
        return better - base

    buckets = [[i for i, length in enumerate(lengths) if low < length <= low + 10] for low in (0, 10, 20)]
    drawn = [draws(len(inside), 40, 3 + place) for place, inside in enumerate(buckets)]
    samples = []
    for number in range(40):
        of_each = [np.repeat(inside, times[number]).tolist() for inside, times in zip(buckets, drawn, strict=True)]
        samples.append(gain(of_each[1] + of_each[2]) - gain(of_each[0]))
    assert first.difference == pytest.approx(gain(buckets[1] + buckets[2]) - gain(buckets[0]))
    assert (first.difference_low, first.difference_high) == pytest.approx(tuple(np.percentile(samples, (2.5, 97.5))))
    assert second.difference == pytest.approx(gain(buckets[2]) - gain(buckets[0] + buckets[1]))
    assert (second.difference_low, second.difference_high) == (None, None)  # of ten sentences


def test_a_gain_on_longer_sentences_needs_both_and_counts_no_source_without_a_word():
    told = counted(["a b c d"] * 60, [["a b c d"] * 60])
    assert compare_longer([5] * 60, told, {"other": told}) == {"other": []}
    (gain,) = compare_longer([0] * 20 + [5] * 20 + [15] * 20, told, {"other": told}, resamples=20)["other"]
    assert gain == (10, 20, 0, 0, 0)


@pytest.mark.parametrize("sentences", [1, ENOUGH - 1])
def test_few_sentences_say_nothing_of_how_sure_their_score_is(sentences):
    (bucket,) = by_length([7] * sentences, counted(["a b c d"] * sentences, [["a b c d"] * sentences]))
    assert (bucket.name, bucket.bleu, bucket.low, bucket.high) == ("1–10", pytest.approx(100), None, None)


def test_the_closest_of_several_references_is_the_one_whose_words_count():
    (bucket,) = by_length([7, 7], counted(["a b c", "d"], [["a b", "d"], ["a b c d e f", "d d d"]]))
    assert bucket.reference_words == (2 + 1) / 2


def test_buckets_are_named_by_what_is_in_them():
    assert bucket_names((10, 20), first=1) == ["1–10", "11–20", ">20"]
    assert bucket_names((0, 1, 2, 5), first=0) == ["0", "1", "2", "3–5", ">5"]


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="2 hypotheses but 1 source lengths"):
        by_length([1], counted(["a", "b"], [["a", "b"]]))
    with pytest.raises(ConfigurationError, match=r"bounds=\[10, 10\]: at least one is needed, each greater"):
        by_length([1], counted(["a"], [["a"]]), bounds=(10, 10))
    with pytest.raises(ConfigurationError, match=r"bounds=\[\]"):
        by_length([1], counted(["a"], [["a"]]), bounds=())
