"""BLEU and its kin against counts made by hand and slow loops, and what they refuse."""

import random
from itertools import permutations
from math import exp, log

import numpy as np
import pytest

from nmt.evaluation.bleu import FLAVOURS, bleu_of, corpus_bleu, flavoured_bleu, sentence_statistics
from nmt.evaluation.ribes import ribes
from nmt.evaluation.text_scores import all_scores


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
    scores = all_scores(
        ["It's a man, he says."], [["It's a man , he says ."]], language="en", tokenize="13a", lowercase=False
    )
    assert scores["bleu"].score == pytest.approx(100)
    assert scores["ter"].score > 0
    assert "tok:13a" in scores["bleu"].signature


def test_every_hypothesis_needs_a_reference():
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="1 hypotheses but 2 references in list 2 of 2"):
        corpus_bleu(["a"], [["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="0 hypotheses"):
        corpus_bleu([], [])


def literal_bleu(hypotheses, references, length_of):
    """Papineni 2002 with several references, unsmoothed; `length_of` chooses the one that decides on brevity."""
    matches, totals, said, wanted = [0] * 4, [0] * 4, 0, 0
    for hypothesis, *others in zip(hypotheses, *references, strict=True):
        hypothesis, others = hypothesis.split(), [other.split() for other in others]
        said += len(hypothesis)
        wanted += length_of(len(hypothesis), [len(other) for other in others])
        for size in range(1, 5):
            grams = [hypothesis[i : i + size] for i in range(len(hypothesis) - size + 1)]
            totals[size - 1] += len(grams)
            for gram in {tuple(gram) for gram in grams}:
                most = max(
                    sum(tuple(other[i : i + size]) == gram for i in range(len(other) - size + 1)) for other in others
                )
                matches[size - 1] += min(grams.count(list(gram)), most)
    precision = exp(sum(log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    return 100 * precision * min(1, exp(1 - wanted / said))


def closest(length, lengths):
    return min(lengths, key=lambda other: (abs(other - length), other))


def random_lines(seed, count, words="abcde", longest=12):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(4, longest))) for _ in range(count)]


def test_four_references_count_as_in_a_literal_loop_with_the_closest_or_the_shortest_length():
    hypotheses, references = random_lines(0, 30), [random_lines(seed, 30, longest=20) for seed in range(1, 5)]
    by_closest = literal_bleu(hypotheses, references, closest)
    by_shortest = literal_bleu(hypotheses, references, lambda length, lengths: min(lengths))
    assert by_closest < by_shortest
    for flavour in ("13a", "lowercase"):
        assert flavoured_bleu(flavour, hypotheses, references).score == pytest.approx(by_closest)
    assert flavoured_bleu("nist", hypotheses, references).score == pytest.approx(by_shortest)
    assert "nrefs:4" in flavoured_bleu("nist", hypotheses, references).signature


@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_line_is_no_reference_where_the_sentence_has_another(blank):
    hypotheses, one, other = ([line[:25] for line in random_lines(seed, 6)] for seed in (0, 1, 2))
    counted = {"language": "de", "tokenize": "13a", "lowercase": False}
    alone = all_scores(hypotheses, [one], **counted)
    for padded in ([one, [blank] * 6], [[blank] * 6, one]):
        assert {name: score.score for name, score in all_scores(hypotheses, padded, **counted).items()} == {
            name: score.score for name, score in alone.items()
        }
    mixed = [one, [*other[:3], blank, blank, blank]]
    by_literal_loop = literal_bleu(hypotheses, [one, [*other[:3], *one[3:]]], closest)
    assert flavoured_bleu("13a", hypotheses, mixed).score == pytest.approx(by_literal_loop)
    assert all_scores(["a b"], [[blank], [blank]], **counted)["bleu"].score == 0


def test_nist_takes_the_shortest_reference_and_lowercases_letters_of_english_only():
    references = [["a b c d e f g"], ["a b c d"]]
    assert flavoured_bleu("13a", ["a b c d e f"], references).score == pytest.approx(100 * exp(1 - 7 / 6))
    scored = flavoured_bleu("nist", ["A B c d E f"], references)
    assert scored.score == pytest.approx(100)
    assert "bp:shortest" in scored.signature
    assert flavoured_bleu("lowercase", ["Äpfel a b c"], ["äpfel a b c"]).score == pytest.approx(100)
    assert flavoured_bleu("nist", ["Äpfel a b c d"], ["äpfel a b c d"]).score < 100


def test_only_what_mteval_v13a_smooths_is_above_zero_without_matching_4_grams():
    hypotheses, references = ["a b c x e f"], ["a b c d e f"]
    assert {flavour: flavoured_bleu(flavour, hypotheses, references).score > 0 for flavour in FLAVOURS} == {
        "13a": True,
        "lowercase": True,
        "nist": False,
        "zh": True,
        "char": True,
    }


def test_chinese_is_counted_by_characters_and_latin_words_whole_or_by_letters():
    hypotheses, references = ["我爱北京GPU"], ["我爱北京CPU"]
    words = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    letters = (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert flavoured_bleu("zh", hypotheses, references).score == pytest.approx(100 * words)
    assert flavoured_bleu("char", hypotheses, references).score == pytest.approx(100 * letters)


def test_statistics_of_sentences_add_up_to_the_score_of_the_text():
    hypotheses, references = [*random_lines(0, 20), ""], [[*random_lines(1, 20), "a b"], [*random_lines(2, 20), "a"]]
    statistics = sentence_statistics(hypotheses, references, tokenize="none", lowercase=False)
    assert statistics[-1].tolist() == [0, 1] + [0] * 8  # the closest reference of nothing is the shortest
    chosen = [3, 3, 20, 7]
    again = corpus_bleu([hypotheses[i] for i in chosen], [[lines[i] for i in chosen] for lines in references])
    assert bleu_of(np.stack([statistics.sum(0), statistics[chosen].sum(0)])) == pytest.approx(
        [corpus_bleu(hypotheses, references).score, again.score]
    )


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c d", "a b c d", 1.0),
        ("d c b a", "a b c d", 0.0),
        ("b a c d", "a b c d", 5 / 6),  # one pair of six descends
        ("a b", "a b c d", exp(1 - 4 / 2) ** 0.10),
        ("a x b y", "a b", (2 / 4) ** 0.25),
        ("a", "a", 1.0),
        ("a x", "a", (1 / 2) ** 0.25),
        ("a x", "a b", 0.0),  # one word has no order
        ("x y", "a b", 0.0),
        ("", "a b", 0.0),
        # the second `he` follows `because` in both, so that it is the reference's eighth word as the first is:
        # ranks 7 8 9 10 6 7 1 2 3 4 5, where 17 of 55 pairs ascend
        (
            "he read the book because he was interested in world history",
            "he was interested in world history because he read the book",
            17 / 55,
        ),
        ("a a", "a a", 1.0),  # the first begins the bigram, the second ends it
        ("a a a", "a a", 0.0),  # nothing says which is which
    ],
)
def test_ribes_by_hand(hypothesis, reference, expected):
    assert ribes([hypothesis], [reference]).score == pytest.approx(100 * expected)


def test_ribes_of_other_orders_is_kendalls_tau_put_between_0_and_1():
    words = "abcde"
    for order in permutations(range(5)):
        inversions = sum(order[i] > order[j] for i in range(5) for j in range(i + 1, 5))
        tau = 1 - 2 * inversions / 10
        scored = ribes([" ".join(words[place] for place in order)], [" ".join(words)]).score
        assert scored == pytest.approx(100 * (tau + 1) / 2)


def test_ribes_takes_the_best_reference_of_each_sentence_and_their_mean():
    hypotheses = ["b a", "a b", "c d"]
    references = [["a b", "b a", ""], ["b a", "b a", ""]]
    assert ribes(hypotheses, references).score == pytest.approx(100 * (1 + 0) / 2)  # the last is asked for nothing
    assert ribes(["A b, c."], ["a b , c ."], tokenize="13a", lowercase=True).score == pytest.approx(100)


def test_all_scores_of_words_with_spaces():
    hypotheses, references = ["The cat sat."], ["the cat sat on it."]
    scores = all_scores(
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
    assert scores["ter"].score == pytest.approx(100 * 3 / 5)  # `sat.` for `sat`, and two words too few, of whole words
    assert scores["tb"].score == pytest.approx((scores["ter"].score - scores["bleu"].score) / 2)
    assert scores["brevity_penalty"].score == pytest.approx(exp(1 - 6 / 4))
    assert scores["length_ratio"].score == pytest.approx(4 / 6)
    assert all(score.signature for score in scores.values())


def test_all_scores_of_chinese_count_characters():
    scores = all_scores(["我爱北京"], [["我爱南京"]], language="zh", tokenize="zh", lowercase=False)
    assert {name for name in scores if name.startswith("bleu")} == {"bleu", "bleu_zh", "bleu_char"}
    assert scores["ter"].score == pytest.approx(100 / 4)
    assert "asian:yes" in scores["ter"].signature
    assert scores["length_ratio"].score == 1


def test_empty_lines_and_single_sentences_are_scored():
    scores = all_scores(["", ""], [["a", "b c"]], language="de", tokenize="13a", lowercase=False)
    assert scores["bleu"].score == scores["ribes"].score == scores["length_ratio"].score == 0
    assert scores["brevity_penalty"].score == 0
    assert scores["ter"].score == pytest.approx(100)
    assert scores["tb"].score == pytest.approx(50)
