"""RIBES against values by hand, and against Kendall's tau."""

from itertools import permutations
from math import exp

import pytest

from nmt.evaluation.ribes import ribes


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c d", "a b c d", 1.0),
        ("d c b a", "a b c d", 0.0),
        ("b a c d", "a b c d", 5 / 6),  # one of six pairs descends
        ("a b", "a b c d", exp(1 - 4 / 2) ** 0.10),
        ("a x b y", "a b", (2 / 4) ** 0.25),
        ("a", "a", 1.0),
        ("a x", "a", (1 / 2) ** 0.25),
        ("a x", "a b", 0.0),  # one word has no order
        ("x y", "a b", 0.0),
        ("", "a b", 0.0),
        # `he read` and `because he` occur once in both, so both `he` of the hypothesis get rank 7:
        # ranks 7 8 9 10 6 7 1 2 3 4 5, of which 17 of 55 pairs ascend
        (
            "he read the book because he was interested in world history",
            "he was interested in world history because he read the book",
            17 / 55,
        ),
        ("a a", "a a", 1.0),  # one begins the bigram, the other ends it
        ("a a a", "a a", 0.0),  # no n-gram tells the words apart
    ],
)
def test_ribes_agrees_with_values_by_hand(hypothesis, reference, expected):
    assert ribes([hypothesis], [reference]).score == pytest.approx(100 * expected)


def test_ribes_of_a_permutation_is_kendalls_tau_scaled_to_0_and_1():
    words = "abcde"
    for order in permutations(range(5)):
        inversions = sum(order[i] > order[j] for i in range(5) for j in range(i + 1, 5))
        tau = 1 - 2 * inversions / 10
        scored = ribes([" ".join(words[place] for place in order)], [" ".join(words)]).score
        assert scored == pytest.approx(100 * (tau + 1) / 2)


def test_ribes_is_the_mean_of_the_best_reference_of_each_sentence():
    hypotheses = ["b a", "a b", "c d"]
    references = [["a b", "b a", ""], ["b a", "b a", ""]]
    assert ribes(hypotheses, references).score == pytest.approx(100 * (1 + 0) / 2)  # the last sentence has no reference
    assert ribes(["A b, c."], ["a b , c ."], tokenize="13a", lowercase=True).score == pytest.approx(100)
