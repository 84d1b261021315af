"""BLEU and its variants against counts by hand and a slow loop."""

import random
from math import exp, log

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from nmt.evaluation.bleu import (
    VARIANTS,
    bleu_from_totals,
    bleu_variant,
    corpus_bleu,
    sentence_statistics,
    split_words,
    warn_of_low_bleu,
)
from nmt.evaluation.text_scores import score_text


def test_bleu_is_the_geometric_mean_of_precisions_times_the_brevity_penalty():
    hypotheses, references = ["the cat sat on a mat", "a b c d"], ["the cat sat on the mat", "a b c d e f"]
    matches, totals = [5 + 4, 3 + 3, 2 + 2, 1 + 1], [10, 8, 6, 4]
    precision = exp(sum(log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    scored = corpus_bleu(hypotheses, references)
    assert scored.score == pytest.approx(100 * precision * exp(1 - 12 / 10))
    assert "tok:none" in scored.signature
    assert "nrefs:1" in scored.signature


def test_lowercase_and_tokenizer_change_the_score():
    assert corpus_bleu(["A b c d e"], ["a b c d e"]).score < 100
    scores = score_text(
        ["It's a man, he says."], [["It's a man , he says ."]], language="en", tokenize="13a", lowercase=False
    )
    assert scores["bleu"].score == pytest.approx(100)
    assert scores["ter"].score > 0
    assert "tok:13a" in scores["bleu"].signature


def test_a_bleu_near_zero_names_likely_causes(caplog):
    warn_of_low_bleu("test", 1.0)
    assert not caplog.messages
    warn_of_low_bleu("test", 0.996)
    warn_of_low_bleu("valid", 0.0)
    first, second = caplog.messages
    assert first.startswith("test: BLEU 1.00, so hardly a word is right. Fix: train longer (trainer.max_epochs=…), ")
    assert first.endswith(
        "lines of data.tests.test.source and data.tests.test.target belong together and are not swapped"
    )
    assert "data.valid.source and data.valid.target" in second


def test_every_hypothesis_needs_a_reference():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="1 hypotheses but 2 references in list 2 of 2"):
        corpus_bleu(["a"], [["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="0 hypotheses"):
        corpus_bleu([], [])


def literal_bleu(hypotheses, references, length_of):
    """Return unsmoothed BLEU (Papineni 2002); `length_of` chooses the reference length of the brevity penalty."""
    matches, totals, words, reference_words = [0] * 4, [0] * 4, 0, 0
    for hypothesis, *others in zip(hypotheses, *references, strict=True):
        hypothesis, others = hypothesis.split(), [other.split() for other in others]
        words += len(hypothesis)
        reference_words += length_of(len(hypothesis), [len(other) for other in others])
        for size in range(1, 5):
            ngrams = [hypothesis[i : i + size] for i in range(len(hypothesis) - size + 1)]
            totals[size - 1] += len(ngrams)
            for ngram in {tuple(ngram) for ngram in ngrams}:
                most = max(
                    sum(tuple(other[i : i + size]) == ngram for i in range(len(other) - size + 1)) for other in others
                )
                matches[size - 1] += min(ngrams.count(list(ngram)), most)
    precision = exp(sum(log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    return 100 * precision * min(1, exp(1 - reference_words / words))


def closest(length, lengths):
    return min(lengths, key=lambda other: (abs(other - length), other))


def random_lines(seed, count, words="abcde", longest=12):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(4, longest))) for _ in range(count)]


def test_bleu_with_four_references_agrees_with_a_slow_loop():
    hypotheses, references = random_lines(0, 30), [random_lines(seed, 30, longest=20) for seed in range(1, 5)]
    by_closest = literal_bleu(hypotheses, references, closest)
    by_shortest = literal_bleu(hypotheses, references, lambda length, lengths: min(lengths))
    assert by_closest < by_shortest
    for variant in ("13a", "lowercase"):
        assert bleu_variant(variant, hypotheses, references).score == pytest.approx(by_closest)
    assert bleu_variant("nist", hypotheses, references).score == pytest.approx(by_shortest)
    assert "nrefs:4" in bleu_variant("nist", hypotheses, references).signature


@pytest.mark.parametrize("blank", ["", " \t"])
def test_blank_lines_are_no_references_if_the_sentence_has_another(blank):
    hypotheses, one, other = ([line[:25] for line in random_lines(seed, 6)] for seed in (0, 1, 2))
    counted = {"language": "de", "tokenize": "13a", "lowercase": False}
    expected = score_text(hypotheses, [one], **counted)
    for padded in ([one, [blank] * 6], [[blank] * 6, one]):
        assert {name: score.score for name, score in score_text(hypotheses, padded, **counted).items()} == {
            name: score.score for name, score in expected.items()
        }
    mixed = [one, [*other[:3], blank, blank, blank]]
    by_literal_loop = literal_bleu(hypotheses, [one, [*other[:3], *one[3:]]], closest)
    assert bleu_variant("13a", hypotheses, mixed).score == pytest.approx(by_literal_loop)
    assert score_text(["a b"], [[blank], [blank]], **counted)["bleu"].score == 0


def test_nist_uses_the_shortest_reference_and_lowercases_only_a_to_z():
    references = [["a b c d e f g"], ["a b c d"]]
    assert bleu_variant("13a", ["a b c d e f"], references).score == pytest.approx(100 * exp(1 - 7 / 6))
    scored = bleu_variant("nist", ["A B c d E f"], references)
    assert scored.score == pytest.approx(100)
    assert "bp:shortest" in scored.signature
    assert bleu_variant("lowercase", ["Äpfel a b c"], ["äpfel a b c"]).score == pytest.approx(100)
    assert bleu_variant("nist", ["Äpfel a b c d"], ["äpfel a b c d"]).score < 100


def test_every_variant_but_nist_smooths_missing_4_grams():
    hypotheses, references = ["a b c x e f"], ["a b c d e f"]
    assert {variant: bleu_variant(variant, hypotheses, references).score > 0 for variant in VARIANTS} == {
        "13a": True,
        "lowercase": True,
        "nist": False,
        "zh": True,
        "char": True,
    }


def test_zh_splits_chinese_into_characters_and_char_also_latin_words():
    hypotheses, references = ["我爱北京GPU"], ["我爱北京CPU"]
    words = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    letters = (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert bleu_variant("zh", hypotheses, references).score == pytest.approx(100 * words)
    assert bleu_variant("char", hypotheses, references).score == pytest.approx(100 * letters)


def test_sentence_statistics_sum_to_the_bleu_of_the_text():
    hypotheses, references = [*random_lines(0, 20), ""], [[*random_lines(1, 20), "a b"], [*random_lines(2, 20), "a"]]
    statistics = sentence_statistics(hypotheses, references, tokenize="none", lowercase=False)
    assert statistics[-1].tolist() == [0, 1] + [0] * 8  # the shortest reference is the closest to an empty line
    chosen = [3, 3, 20, 7]
    again = corpus_bleu([hypotheses[i] for i in chosen], [[lines[i] for i in chosen] for lines in references])
    assert bleu_from_totals(np.stack([statistics.sum(0), statistics[chosen].sum(0)])) == pytest.approx(
        [corpus_bleu(hypotheses, references).score, again.score]
    )


def test_bleu_of_many_totals_is_that_of_sacrebleu():
    numbers = np.random.default_rng(0)
    words = numbers.choice([0, 1, 2, 3, 4, 5, 9, 300], 2000)
    ngrams = np.maximum(words[:, None] - np.arange(4), 0)
    matches = numbers.integers(0, ngrams + 1) * numbers.integers(0, 2, ngrams.shape)
    totals = np.column_stack([words, numbers.integers(1, 300, 2000), matches, ngrams])
    expected = [BLEU.compute_bleu(row[2:6], row[6:], *row[:2], smooth_method="exp").score for row in totals.tolist()]
    assert 500 < np.count_nonzero(expected) < 1900
    np.testing.assert_allclose(bleu_from_totals(totals.reshape(20, 100, 10)).ravel(), expected, rtol=1e-12)


def test_words_are_split_as_bleu_splits_them():
    assert split_words(["It's A man, he says. \n", ""], tokenize="13a", lowercase=True) == [
        ["it's", "a", "man", ",", "he", "says", "."],
        [],
    ]
