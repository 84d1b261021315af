"""Alignment error rates against counts by hand, and the formats of links."""

import pytest

from nmt.data.word_alignments import Gold, read_gold, read_pharaoh
from nmt.errors import DataError
from nmt.evaluation.alignment_error import link_scores


def test_sure_and_possible_links_count_as_in_och_and_ney():
    links = [{(0, 0), (1, 2), (2, 2), (3, 1)}]
    gold = [Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2), (2, 2), (9, 9)})]
    scores = link_scores(links, gold)
    precision, recall = 100 * 3 / 4, 100 * 1 / 2  # all but 3-1; 1-1 is missing, and possible links may be missing
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)
    assert scores["aer"] == pytest.approx(100 * (1 - (1 + 3) / (4 + 2)))
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_counts_are_summed_over_sentences_and_not_averaged():
    links, sure = [{(0, 0)}, {(0, 1), (1, 0), (2, 2)}], [{(0, 0)}, {(2, 2)}]
    scores = link_scores(links, [Gold(one, one) for one in sure])
    assert (scores["precision"], scores["recall"]) == pytest.approx((100 * 2 / 4, 100 * 2 / 2))
    assert scores["aer"] == pytest.approx(100 * (1 - (2 + 2) / (4 + 2)))


def test_sure_links_count_as_possible_even_if_not_listed_there():
    assert link_scores([{(0, 0)}], [Gold({(0, 0)}, set())]) == {"aer": 0, "precision": 100, "recall": 100, "f1": 100}


def test_error_is_100_without_links_and_0_without_links_and_gold():
    assert link_scores([set()], [Gold({(0, 0)}, {(0, 0)})])["aer"] == 100
    assert link_scores([], [])["aer"] == 0


def test_links_and_gold_must_have_the_same_number_of_sentences():
    with pytest.raises(ValueError, match=r"longer|shorter"):
        link_scores([set()], [Gold(set(), set())] * 2)


def test_positions_read_with_any_base_count_from_zero():
    assert read_pharaoh(" 0-0 12-3\n") == {(0, 0), (12, 3)}
    assert read_pharaoh("1-1 13-4", base=1) == {(0, 0), (12, 3)}
    assert read_pharaoh("") == set()


def test_gold_counts_from_one_and_possible_links_include_sure_ones():
    gold = read_gold("1-1 2p3 4-12")
    assert gold.sure == {(0, 0), (3, 11)}
    assert gold.possible == {(0, 0), (3, 11), (1, 2)}


@pytest.mark.parametrize("word", ["1p2", "1", "1-", "-1-2", "1-2-3", "a-b", "1_2", "²-1"])
def test_error_names_a_word_that_is_not_a_link(word):
    with pytest.raises(DataError, match=rf"'{word}' is not a link"):
        read_pharaoh(f"0-0 {word}")


def test_error_names_a_position_before_the_first():
    with pytest.raises(DataError, match=r"'0-1': positions must count from 1"):
        read_gold("1-1 0-1")
