"""Attention against gold alignments: links of weights, hard and soft error rates, and words between spaces."""

import numpy as np
import pytest

from nmt.data.parallel_text import FilePairs
from nmt.data.preprocessing import Preprocessing
from nmt.data.toy_corpus import ToyPairs
from nmt.data.word_alignments import Gold
from nmt.errors import DataError
from nmt.evaluation.alignment_error import compute_measures
from nmt.evaluation.attention_alignment import (
    count_shared_letters,
    extract_links,
    mark_gold,
    score_alignments,
    to_whitespace_words,
)

WEIGHTS = np.array([[0.7, 0.3, 0.0], [0.1, 0.5, 0.4], [0.0, 0.0, 0.0]])  # (target, source)


def test_links_are_the_best_of_each_target_word_or_all_above_a_threshold():
    assert extract_links(WEIGHTS, None) == {(0, 0), (1, 1)}  # a target word without attention has no link
    assert extract_links(WEIGHTS, 0.3) == {(0, 0), (1, 0), (1, 1), (2, 1)}
    assert extract_links(WEIGHTS, 0.71) == set()


def test_hard_and_soft_error_rates_agree_with_values_by_hand():
    gold = [Gold({(0, 0)}, {(0, 0), (2, 1)})]
    # hard: A = {0-0, 1-1}, |A∩S| = 1, |A∩P| = 1: AER = 1 − 2/3, precision 1/2, recall 1
    # soft: |A×S| = .7, |A×P| = .7 + .4, |A| = 2, |S| = 1: SAER = 1 − 1.8/3
    assert score_alignments([WEIGHTS], gold, None).scores == pytest.approx(
        {
            "aer": 100 / 3,
            "saer": 40.0,
            "alignment_precision": 50.0,
            "alignment_recall": 100.0,
            "alignment_f1": 200 / 3,
        }
    )
    assert score_alignments([np.eye(3)], [Gold({(0, 0), (1, 1), (2, 2)}, set())], None).scores["saer"] == 0.0


def test_gold_links_are_marked_by_target_and_source_word():
    gold = Gold({(0, 1)}, {(0, 1), (2, 0)})
    assert mark_gold(gold, (2, 3)).tolist() == [[0, 0, 0.5], [1, 0, 0]]
    assert score_alignments([WEIGHTS], [gold], None).weights[0] is WEIGHTS


def test_error_rates_come_from_the_summed_counts_of_sentences():
    gold = [Gold({(0, 0)}, {(0, 0), (2, 1)}), Gold(set(), set())]
    alignments = score_alignments([WEIGHTS, np.zeros((2, 1))], gold, 0.3)
    # hard: A = {0-0, 1-0, 1-1, 2-1}, S = {0-0}, P also contains 2-1
    np.testing.assert_allclose(alignments.counts, [[4, 1, 1, 2, 2.0, 1, 0.7, 1.1], [0] * 8])
    rates = [alignments.scores["aer"], alignments.scores["saer"]]
    assert compute_measures(alignments.counts.sum(0)) == pytest.approx(rates)
    assert compute_measures(alignments.counts).tolist()[1] == [0, 0]


def test_toy_language_and_files_provide_gold_alignments(tmp_path):
    toy = ToyPairs("test", 2).gold()
    assert toy == ToyPairs("test", 2).gold()
    for name in ("source", "target"):
        (tmp_path / name).write_text("a b\n")
    (tmp_path / "gold").write_text("0-0 1p1\n")
    paths = {name: str(tmp_path / name) for name in ("source", "target")}
    assert FilePairs(**paths).gold() is None
    (gold,) = FilePairs(**paths, alignments=str(tmp_path / "gold"), alignments_base=0).gold()
    assert gold == Gold({(0, 0)}, {(0, 0), (1, 1)})


def preprocessing(language: str, tokenizer: str) -> Preprocessing:
    return Preprocessing(language=language, normalize=True, tokenizer=tokenizer, lowercase=True)


def test_weights_of_model_words_become_weights_of_whitespace_words():
    source = count_shared_letters(1, "科学家 Paris 猜想", preprocessing("zh", "characters"))  # 科 学 家 paris 猜 想
    target = count_shared_letters(1, "scientists guess-work .", preprocessing("en", "moses"))
    assert source.tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 5, 0], [0, 0, 1], [0, 0, 1]]
    assert target.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 1]]
    weights = np.array([[0.1, 0.2, 0.3, 0.0, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0, 0.0, 0.5]])
    expected = [[0.6, 0, 0.4], [0, 1, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(to_whitespace_words(weights, source, target), expected)


def test_target_word_of_two_model_words_gets_the_mean_over_letters():
    target = count_shared_letters(1, "don't go", preprocessing("en", "moses"))  # don &apos;t go
    assert target.tolist() == [[3, 0], [7, 0], [0, 2]]
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    np.testing.assert_allclose(to_whitespace_words(weights, np.eye(2), target), [[0.3, 0.7], [0.5, 0.5]])


def test_a_word_without_letters_gets_no_attention():
    target = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 2.0]])  # normalization left nothing of the second word
    weights = np.array([[0.7, 0.3], [0.2, 0.8]])
    np.testing.assert_allclose(to_whitespace_words(weights, np.eye(2), target), [[0.7, 0.3], [0, 0], [0.2, 0.8]])


def test_source_words_that_are_one_model_word_share_its_weight():
    source = np.array([[2.0, 6.0], [0.0, 1.0]])  # as if normalization removed a space
    np.testing.assert_allclose(to_whitespace_words(np.array([[0.4, 0.6]]), source, np.eye(1)), [[0.1, 0.9]])


def test_error_names_a_line_whose_letters_preprocessing_changes():
    with pytest.raises(DataError, match=r"pair 7: .*to '1.000 m'. Fix: evaluate a run with .*normalize=false"):
        count_shared_letters(7, "1\u00a0000 m", preprocessing("de", "moses"))
