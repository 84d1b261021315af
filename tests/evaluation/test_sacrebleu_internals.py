"""The private methods of sacrebleu that the evaluation uses: each test names the method that an upgrade changed."""

import inspect

import pytest
from sacrebleu.metrics import BLEU

from nmt.evaluation.bleu import ORDER, bleu_metric
from nmt.evaluation.sacrebleu_internals import NistBLEU, count_statistics, split_line


def parameters(method) -> list[str]:
    return list(inspect.signature(method).parameters)


def test_preprocess_segment_lowercases_and_tokenizes_a_line():
    assert parameters(BLEU._preprocess_segment) == ["self", "sent"]
    assert (
        BLEU(tokenize="13a", lowercase=True)._preprocess_segment("It's A man, he says. \n") == "it's a man , he says ."
    )
    assert split_line(bleu_metric("13a", lowercase=True), " A man,  he\t") == ["a", "man", ",", "he"]


def test_corpus_score_calls_preprocess_segment_for_both_texts():
    class Constant(BLEU):
        def _preprocess_segment(self, sent: str) -> str:
            lines.append(sent)
            return "a b c d"

    lines = []
    assert Constant(tokenize="none", force=True).corpus_score(["x"], [["y"]]).score == pytest.approx(100)
    assert sorted(lines) == ["x", "y"]


def test_get_closest_ref_len_chooses_the_length_of_the_reference():
    assert parameters(BLEU._get_closest_ref_len) == ["self", "hyp_len", "ref_lens"]
    assert BLEU()._get_closest_ref_len(5, [9, 4, 6]) == 4
    references = [["a b c d e f g"], ["a b c"]]
    assert BLEU(tokenize="none", force=True).corpus_score(["a b c d e f"], references).ref_len == 7
    assert NistBLEU().corpus_score(["a b c d e f"], references).ref_len == 3


def test_extract_corpus_statistics_returns_the_counts_that_sum_to_bleu():
    assert parameters(BLEU._extract_corpus_statistics) == ["self", "hypotheses", "references"]
    hypotheses, references = ["a b c d e", "a x"], [["a b c d f g", "a b c"], ["a b", None]]
    metric = bleu_metric("none", lowercase=False)
    statistics = count_statistics(metric, hypotheses, references)
    assert statistics == [[5, 6, 4, 3, 2, 1, 5, 4, 3, 2], [2, 3, 1, 0, 0, 0, 2, 1, 0, 0]]
    assert {len(counts) for counts in statistics} == {2 + 2 * ORDER}
    words, reference_words, *counts = map(sum, zip(*statistics, strict=True))
    score = BLEU.compute_bleu(counts[:4], counts[4:], words, reference_words, smooth_method="exp")
    assert score.score == pytest.approx(metric.corpus_score(hypotheses, references).score)


def test_signature_update_adds_to_the_signature():
    metric = NistBLEU()
    metric.corpus_score(["a"], [["a"]])
    assert str(metric.get_signature()).startswith("nrefs:1|case:lc-ascii|eff:no|tok:13a|smooth:none|bp:shortest|")
