"""Alignment error rate, counted by hand."""

import pytest

from nmt.data.word_alignments import read_gold, read_pharaoh
from nmt.errors import DataError
from nmt.evaluation.alignment_error import alignment_error_rate


def test_sure_and_possible_links_count_as_och_and_ney_say():
    links = [{(0, 0), (1, 2), (2, 2), (3, 1)}]
    sure, possible = [{(0, 0), (1, 1)}], [{(0, 0), (1, 1), (1, 2), (2, 2), (9, 9)}]
    result = alignment_error_rate(links, sure, possible)
    assert result.precision == pytest.approx(100 * 3 / 4)  # all but 3-1
    assert result.recall == pytest.approx(100 * 1 / 2)  # 1-1 is missing; possible links need not be found
    assert result.error_rate == pytest.approx(100 * (1 - (1 + 3) / (4 + 2)))


def test_sentences_are_pooled_and_not_averaged():
    links, sure = [{(0, 0)}, {(0, 1), (1, 0), (2, 2)}], [{(0, 0)}, {(2, 2)}]
    result = alignment_error_rate(links, sure, sure)
    assert result == pytest.approx((100 * 2 / 4, 100 * 2 / 2, 100 * (1 - (2 + 2) / (4 + 2))))


def test_sure_links_are_possible_even_where_these_do_not_name_them():
    assert alignment_error_rate([{(0, 0)}], [{(0, 0)}], [set()]) == (100, 100, 0)


def test_nothing_found_is_all_wrong_and_nothing_wanted_or_found_is_no_error():
    assert alignment_error_rate([set()], [{(0, 0)}], [{(0, 0)}]).error_rate == 100
    assert alignment_error_rate([], [], []).error_rate == 0


def test_as_many_sentences_as_gold_ones_are_needed():
    with pytest.raises(ValueError, match=r"longer|shorter"):
        alignment_error_rate([set()], [set(), set()], [set(), set()])


def test_positions_count_from_zero_whatever_they_counted_from():
    assert read_pharaoh(" 0-0 12-3\n") == {(0, 0), (12, 3)}
    assert read_pharaoh("1-1 13-4", base=1) == {(0, 0), (12, 3)}
    assert read_pharaoh("") == set()


def test_gold_lines_count_from_one_and_the_possible_links_hold_the_sure_ones():
    gold = read_gold("1-1 2p3 4-12")
    assert gold.sure == {(0, 0), (3, 11)}
    assert gold.possible == {(0, 0), (3, 11), (1, 2)}


@pytest.mark.parametrize("word", ["1p2", "1", "1-", "-1-2", "1-2-3", "a-b", "1_2", "²-1"])
def test_what_is_no_link_is_named(word):
    with pytest.raises(DataError, match=rf"'{word}' is not a link"):
        read_pharaoh(f"0-0 {word}")


def test_a_position_before_the_first_is_named():
    with pytest.raises(DataError, match=r"'0-1': positions must count from 1"):
        read_gold("1-1 0-1")
