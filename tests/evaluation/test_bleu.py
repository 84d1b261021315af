"""BLEU against a count made by hand, and what it refuses."""

from math import exp, log

import pytest

from nmt.evaluation.bleu import corpus_bleu, corpus_scores


def test_bleu_is_the_geometric_mean_of_precisions_times_the_brevity_penalty():
    hypotheses, references = ["the cat sat on a mat", "a b c d"], ["the cat sat on the mat", "a b c d e f"]
    matches, totals = [5 + 4, 3 + 3, 2 + 2, 1 + 1], [10, 8, 6, 4]
    precision = exp(sum(log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    scored = corpus_bleu(hypotheses, references)
    assert scored.score == pytest.approx(100 * precision * exp(1 - 12 / 10))
    assert "tok:none" in scored.signature
    assert "nrefs:1" in scored.signature


def test_case_and_tokenisation_count_as_asked():
    assert corpus_bleu(["A b c d e"], ["a b c d e"]).score < 100
    assert corpus_bleu(["A b c d e"], ["a b c d e"], lowercase=True).score == pytest.approx(100)
    scores = corpus_scores(["It's a man, he says."], ["It's a man , he says ."], tokenize="13a", lowercase=False)
    assert scores["bleu"].score == pytest.approx(100)
    assert scores["ter"].score > 0
    assert "tok:13a" in scores["bleu"].signature


def test_every_hypothesis_needs_a_reference():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        corpus_bleu(["a", "b"], ["a"])
