"""All scores of a text against counts by hand."""

from math import exp

import pytest

from nmt.evaluation.text_scores import score_text


def test_text_with_spaces_has_the_mteval_variants_of_bleu():
    hypotheses, references = ["The cat sat."], ["the cat sat on it."]
    scores = score_text(
        hypotheses,
        [references],
        language="en",
        tokenize="13a",
        lowercase=True,
    )
    assert set(scores) == {
        *("bleu", "bleu_13a", "bleu_lowercase", "bleu_nist"),
        *("chrf", "ter", "tb", "ribes", "brevity_penalty", "length_ratio"),
    }
    assert scores["bleu"] == scores["bleu_lowercase"]
    assert scores["bleu_13a"].score < scores["bleu_lowercase"].score
    assert scores["ter"].score == pytest.approx(
        100 * 3 / 5
    )  # TER splits at spaces: `sat.` for `sat`, two words missing
    assert scores["tb"].score == pytest.approx((scores["ter"].score - scores["bleu"].score) / 2)
    assert scores["brevity_penalty"].score == pytest.approx(exp(1 - 6 / 4))
    assert scores["length_ratio"].score == pytest.approx(4 / 6)
    assert all(score.signature for score in scores.values())


def test_chinese_is_scored_by_characters():
    scores = score_text(["我爱北京"], [["我爱南京"]], language="zh", tokenize="zh", lowercase=False)
    assert {name for name in scores if name.startswith("bleu")} == {"bleu", "bleu_zh", "bleu_char"}
    assert scores["ter"].score == pytest.approx(100 / 4)
    assert "asian:yes" in scores["ter"].signature
    assert scores["length_ratio"].score == 1


def test_empty_lines_are_scored():
    scores = score_text(["", ""], [["a", "b c"]], language="de", tokenize="13a", lowercase=False)
    assert scores["bleu"].score == scores["ribes"].score == scores["length_ratio"].score == 0
    assert scores["brevity_penalty"].score == 0
    assert scores["ter"].score == pytest.approx(100)
    assert scores["tb"].score == pytest.approx(50)
