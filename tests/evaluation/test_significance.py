"""Tests of significance against enumeration, against texts scored anew, and against sacrebleu's."""

import random
from fractions import Fraction
from itertools import permutations, product
from math import gamma, pi, sqrt
from statistics import mean

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from nmt.evaluation.bleu import bleu_of, corpus_bleu, sentence_statistics
from nmt.evaluation.over_under_translation import in_per_cent
from nmt.evaluation.significance import (
    bootstrap_p,
    compare_rates,
    compare_systems,
    draws,
    holm,
    over_seeds,
    randomization_p,
    replaced_sentences,
    sign_test_p,
    spread_over_seeds,
    student_p,
)

PLAIN = {"tokenize": "none", "lowercase": False}


def texts(sentences, *mistakes, seed=0):
    """References, and systems that have a word wrong as often as they are told to."""
    draw = random.Random(seed)
    references = [draw.choices("abcdefghijkl", k=draw.randint(5, 15)) for _ in range(sentences)]
    systems = [
        [" ".join("x" if draw.random() < wrong else word for word in line) for line in references] for wrong in mistakes
    ]
    return [" ".join(line) for line in references], *systems


def compared(baseline, systems, references, **how):
    others = {name: statistics_of(system, references) for name, system in systems.items()}
    return compare_systems(statistics_of(baseline, references), others, **how)


def statistics_of_runs(systems, references):
    return np.concatenate([statistics_of(system, references) for system in systems])


def statistics_of(system, references):
    return sentence_statistics(system, [references], **PLAIN)[None]


def test_the_same_system_is_never_significantly_better():
    references, system = texts(50, 0.2)
    _, same = compared(system, {"same": list(system)}, references, resamples=100)
    assert (same.p_bootstrap, same.p_randomization, same.p_sign) == (1, 1, 1)
    assert (same.difference, same.difference_low, same.difference_high, same.better, same.worse) == (0, 0, 0, 0, 0)


def test_a_system_better_in_one_sentence_is_not_significantly_better():
    references, system = texts(50, 0.2)
    other = [references[0], *system[1:]]
    assert other[0] != system[0]
    _, found = compared(system, {"other": other}, references, resamples=200)
    assert found.difference > 0
    assert (found.better, found.worse, found.p_sign, found.p_randomization) == (1, 0, 1, 1)
    assert found.p_bootstrap > 0.05


def test_a_clearly_better_system_is_significantly_better_and_the_baseline_stands_first():
    references, poor, good, awful = texts(200, 0.3, 0.1, 0.6)
    baseline, better, worse = compared(poor, {"good": good, "awful": awful}, references)
    assert [one.name for one in (baseline, better, worse)] == ["baseline", "good", "awful"]
    assert baseline.bleu == pytest.approx(corpus_bleu(poor, references).score)
    assert baseline.p_bootstrap is baseline.p_randomization is baseline.p_sign is baseline.difference is None
    for one, sign in ((better, 1), (worse, -1)):
        assert one.difference == pytest.approx(one.bleu - baseline.bleu)
        assert one.difference * sign > 0
        assert one.difference_low <= one.difference <= one.difference_high
        assert one.difference_low * sign > 0
        assert one.difference_high * sign > 0
        assert one.low < one.bleu < one.high
        assert max(one.p_bootstrap, one.p_randomization, one.p_sign) < 0.01
    assert better.better > better.worse
    assert worse.better < worse.worse


def test_the_same_seed_gives_the_same_figures_and_systems_do_not_disturb_each_other():
    references, first, second, third = texts(40, 0.3, 0.28, 0.2)
    both = compared(first, {"second": second, "third": third}, references, resamples=100)
    alone = compared(first, {"third": third}, references, resamples=100)
    other = compared(first, {"third": third}, references, resamples=100, seed=1)
    assert [both[0], both[2]] == alone
    assert other[1].low != alone[1].low


def test_two_systems_no_further_apart_than_chance_are_told_apart_as_often_as_p_says():
    found = []
    for seed in range(60):
        references, first, second = texts(60, 0.2, 0.2, seed=seed)
        found.append(compared(first, {"second": second}, references, resamples=99)[1])
    for name in ("p_bootstrap", "p_randomization", "p_sign"):
        p = np.array([getattr(one, name) for one in found])
        assert (p <= 0.05).mean() <= 0.15
        assert 0.35 < p.mean() < 0.7


def test_of_several_runs_the_mean_is_compared():
    references, *systems = texts(30, 0.3, 0.25, 0.2, 0.22, 0.18)
    own, other = statistics_of_runs(systems[:2], references), statistics_of_runs(systems[2:], references)
    baseline, found = compare_systems(own, {"other": other}, resamples=80, seed=4)
    scores = [corpus_bleu(system, references).score for system in systems]
    assert (baseline.bleu, found.bleu) == pytest.approx((mean(scores[:2]), mean(scores[2:])))
    drawn_means = []
    for drawn in draws(30, 80, 4):
        chosen = [index for index, times in enumerate(drawn) for _ in range(times)]
        said = [[system[index] for index in chosen] for system in systems]
        again = [corpus_bleu(system, [references[index] for index in chosen]).score for system in said]
        drawn_means.append((mean(again[:2]), mean(again[2:])))
    own_means, other_means = np.array(drawn_means).T
    assert (baseline.low, baseline.high) == pytest.approx(tuple(np.percentile(own_means, (2.5, 97.5))))
    differences = other_means - own_means
    assert (found.difference_low, found.difference_high) == pytest.approx(
        tuple(np.percentile(differences, (2.5, 97.5)))
    )
    assert found.p_bootstrap == bootstrap_p(differences, found.difference)


def test_more_runs_tell_apart_what_one_does_not():
    references, *systems = texts(80, *[0.22] * 6, *[0.18] * 6, seed=1)
    poor, good = statistics_of_runs(systems[:6], references), statistics_of_runs(systems[6:], references)
    _, one = compare_systems(poor[:1], {"good": good[:1]}, resamples=500)
    _, six = compare_systems(poor, {"good": good}, resamples=500)
    assert min(one.p_bootstrap, one.p_randomization) > 0.05
    assert max(six.p_bootstrap, six.p_randomization) < 0.01


def test_randomisation_deals_each_sentence_out_among_all_runs():
    references, *systems = texts(5, 0.3, 0.2, 0.3, seed=5)
    runs = statistics_of_runs(systems, references)
    observed = [corpus_bleu(system, references).score for system in systems]
    least = abs(observed[0] - mean(observed[1:]))
    apart = []
    for dealt in product(permutations(range(3)), repeat=5):
        totals = np.array([runs[[who[place] for who in dealt], range(5)].sum(0) for place in range(3)])
        own, *others = bleu_of(totals)
        apart.append(abs(own - mean(others)))
    exact = np.mean(np.array(apart) >= least - 1e-9)
    assert 0.05 < exact < 0.95
    assert randomization_p(runs[:1], runs[1:], 20_000, seed=0) == pytest.approx(exact, abs=0.02)


def test_sentences_of_several_runs_are_replaced_in_all_they_said():
    references, *systems = texts(12, 0.3, 0.2, 0.25)
    own, others = systems[0], systems[1:]
    whole = corpus_bleu(own + own, references * 2).score  # as often as the others have runs
    changes = []
    for index in range(12):
        said = [[*own[:index], other[index], *own[index + 1 :]] for other in others]
        changes.append(corpus_bleu(said[0] + said[1], references * 2).score - whole)
    better, worse = sum(change > 1e-9 for change in changes), sum(change < -1e-9 for change in changes)
    found = replaced_sentences(statistics_of(own, references), statistics_of_runs(others, references))
    assert found == (better, worse)
    assert min(found) > 0


def test_draws_are_test_sets_of_the_same_size():
    drawn = draws(7, 50, seed=1)
    assert drawn.shape == (50, 7)
    assert (drawn.sum(1) == 7).all()
    assert drawn.mean() == 1


def test_randomisation_draws_from_all_ways_to_swap_sentences():
    references, first, second = texts(6, 0.3, 0.1, seed=5)
    observed = abs(corpus_bleu(second, references).score - corpus_bleu(first, references).score)
    apart = []
    for swaps in product((False, True), repeat=6):
        mixed = [b if swap else a for a, b, swap in zip(first, second, swaps, strict=True)]
        rest = [a if swap else b for a, b, swap in zip(first, second, swaps, strict=True)]
        apart.append(abs(corpus_bleu(mixed, references).score - corpus_bleu(rest, references).score))
    exact = mean(value >= observed - 1e-9 for value in apart)
    p = randomization_p(statistics_of(first, references), statistics_of(second, references), 20_000, seed=0)
    assert 0.05 < exact < 0.95
    assert p == pytest.approx(exact, abs=0.02)


def test_the_bootstrap_counts_what_is_as_far_from_the_mean_as_zero_is_on_both_sides():
    differences = np.array([0.0, 1.0, 2.0, 3.0, 4.0])  # from their mean: 2 1 0 1 2
    assert bootstrap_p(differences, 1.0) == (4 + 1) / (5 + 1)
    assert bootstrap_p(differences, -2.0) == (2 + 1) / (5 + 1)
    assert bootstrap_p(differences, 2.5) == (0 + 1) / (5 + 1)


@pytest.mark.parametrize("kind", ["ar", "bs"])
def test_p_is_sacrebleus_where_no_draw_is_exactly_as_far_apart(kind):
    references, first, second = texts(150, 0.2, 0.177, seed=2)
    systems, metrics = [("first", first), ("second", second)], {"BLEU": BLEU(tokenize="none", force=True)}
    (_, theirs) = PairedTest(systems, metrics, [references], test_type=kind, n_samples=4000)()[1]["BLEU"]
    _, ours = compared(first, {"second": second}, references, resamples=4000)
    assert ours.bleu == pytest.approx(theirs.score)
    if kind == "ar":
        assert 0.01 < theirs.p_value < 0.5
        assert ours.p_randomization == pytest.approx(theirs.p_value, abs=0.03)
    else:
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci, rel=0.1)
        assert theirs.p_value <= ours.p_bootstrap + 0.02  # sacrebleu looks at one side of the draws
        assert ours.p_bootstrap == pytest.approx(ours.p_randomization, abs=0.05)


def test_sentences_are_better_or_worse_by_the_bleu_of_the_text_they_replace_one_of():
    references, first, second = texts(30, 0.3, 0.2)
    second[4] = ""
    second[5] = first[5]
    whole = corpus_bleu(first, references).score
    changes = [
        corpus_bleu([*first[:index], line, *first[index + 1 :]], references).score - whole
        for index, line in enumerate(second)
    ]
    better, worse = sum(change > 1e-9 for change in changes), sum(change < -1e-9 for change in changes)
    assert replaced_sentences(statistics_of(first, references), statistics_of(second, references)) == (better, worse)
    assert better + worse < 30


def test_the_sign_test_is_exact():
    assert sign_test_p(8, 2) == sign_test_p(2, 8) == 2 * (1 + 10 + 45) / 1024
    assert sign_test_p(0, 0) == sign_test_p(1, 0) == sign_test_p(5, 5) == 1
    coins = sum(abs(2 * sum(tosses) - 9) >= 5 for tosses in product((0, 1), repeat=9))
    assert sign_test_p(7, 2) == pytest.approx(coins / 2**9)
    term, tail = Fraction(1), Fraction(1)
    for few in range(1, 1201):  # each binomial coefficient from the one before it
        term = term * (2500 - few + 1) / few
        tail += term
    assert sign_test_p(1300, 1200) == pytest.approx(float(2 * tail / 2**2500), rel=1e-12)
    assert 0 <= sign_test_p(5000, 0) < 1e-300


def test_one_sentence_says_nothing():
    baseline, other = compared(["a b c x"], {"other": ["a b c d"]}, ["a b c d"], resamples=50)
    assert (baseline.low, other.high, other.difference_low, other.p_bootstrap) == (None, None, None, None)
    assert (other.p_randomization, other.p_sign) == (1, 1)


def test_empty_lines_are_translations_too():
    references, good = texts(60, 0.1)
    _, other = compared([""] * 60, {"good": good}, references, resamples=200)
    assert other.difference == pytest.approx(other.bleu)
    assert other.p_randomization < 0.01
    assert (other.better, other.worse) == (60, 0)


def test_systems_of_another_length_are_named_by_their_lines():
    with pytest.raises(ValueError, match="short: 1 sentences but 2 of the baseline"):
        compare_systems(statistics_of(["a", "b"], ["a", "b"]), {"short": statistics_of(["a"], ["a"])})
    with pytest.raises(ValueError, match="3 hypotheses but 2 references"):
        statistics_of(["a", "b", "c"], ["a", "b"])


@pytest.mark.parametrize(
    ("t", "degrees", "p"),  # tables of Student's t, two-sided
    [
        (12.7062, 1, 0.05),
        (4.3027, 2, 0.05),
        (9.9248, 2, 0.01),
        (3.1824, 3, 0.05),
        (-2.2281, 10, 0.05),
        (2.0345, 33, 0.05),
        (2.0322, 34, 0.05),
        (0.0, 1, 1.0),
        (0.0, 8, 1.0),
        (1e9, 7, 0.0),
    ],
)
def test_students_t_is_that_of_the_tables(t, degrees, p):
    assert student_p(t, degrees) == pytest.approx(p, abs=1e-5)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 12, 35])
def test_students_t_is_the_area_under_its_density(degrees):
    points = np.linspace(-1.7, 1.7, 200_001)
    density = (1 + points**2 / degrees) ** (-(degrees + 1) / 2)
    whole = sqrt(degrees * pi) * gamma(degrees / 2) / gamma((degrees + 1) / 2)
    assert student_p(1.7, degrees) == pytest.approx(1 - np.trapezoid(density, points) / whole, abs=1e-9)


def test_over_seeds_two_systems_are_told_apart_by_students_t():
    """t = 3 / √(1 · (1/3 + 1/3)) = 3.674, four degrees of freedom."""
    systems = trained_anew(own=[1.0, 2.0, 3.0], other=[4.0, 5.0, 6.0])
    assert over_seeds(systems.pop("own"), systems) == {"other": pytest.approx(0.021312, abs=1e-6)}


def test_over_seeds_all_systems_tell_together_what_the_spread_is():
    systems = trained_anew(own=[20.0, 20.2], a=[21.0, 21.6], b=[20.0, 20.0, 20.3], alone=[22.0])
    own = systems.pop("own")
    squares = 0.02 + 0.18 + 0.06  # 1 + 1 + 2 degrees of freedom
    expected = {
        "a": student_p((21.3 - 20.1) / sqrt(squares / 4 * (1 / 2 + 1 / 2)), 4),
        "b": student_p((20.1 - 20.1) / sqrt(squares / 4 * (1 / 3 + 1 / 2)), 4),
        "alone": student_p((22.0 - 20.1) / sqrt(squares / 4 * (1 / 1 + 1 / 2)), 4),
    }
    assert spread_over_seeds([own, *systems.values()]) == (pytest.approx(sqrt(squares / 4)), 4)
    assert over_seeds(own, systems) == pytest.approx(expected)
    assert expected["alone"] < expected["a"] < 0.05 < expected["b"]


@pytest.mark.parametrize("others", [{"a": [25.0]}, {"a": [20.0], "b": [22.0]}, {"a": [21.0, 21.0]}])
def test_over_seeds_nothing_is_said_where_no_runs_of_a_system_differ(others):
    systems = trained_anew(own=[20.0], **others)
    assert over_seeds(systems.pop("own"), systems) == dict.fromkeys(others)


def test_over_seeds_runs_scored_in_several_ways_were_trained_once():
    """Or four ways to search with the same three runs would be taken for twelve trainings."""
    own, other = {1: 20.0, 2: 21.0, 3: 22.0}, {4: 23.0, 5: 24.0, 6: 26.0}
    searches = {"wider": {1: 20.5, 2: 21.5, 3: 22.5}, "other": other, "other_wider": {4: 23.5, 5: 24.0, 6: 26.5}}
    spread = spread_over_seeds([own, *searches.values()])
    middle, wider = 73 / 3, 74 / 3
    squares = [((value - middle) ** 2 + (wide - wider) ** 2) / 2 for value, wide in ((23, 23.5), (24, 24), (26, 26.5))]
    assert spread == (pytest.approx(sqrt((2 + sum(squares)) / 4)), 4)
    told = over_seeds(own, searches)
    assert told["other"] == pytest.approx(student_p((middle - 21) / (spread.deviation * sqrt(2 / 3)), 4))


def test_over_seeds_the_baselines_own_runs_are_compared_run_by_run():
    """Differences 0.3, 0.5, 0.4: t = 0.4 / (0.1 / √3) = 6.93 with two degrees of freedom, however far apart runs."""
    own = {1: 20.0, 2: 25.0, 3: 22.0}
    told = over_seeds(own, {"wider": {1: 20.3, 2: 25.5, 3: 22.4}, "as_far": {run: own[run] + 0.3 for run in own}})
    assert told == {"wider": pytest.approx(0.0202, abs=1e-4), "as_far": None}


def test_over_seeds_runs_of_which_the_baseline_shares_some_say_nothing():
    own = {1: 20.0, 2: 25.0, 3: 22.0}
    systems = {"fewer": {1: 20.3, 2: 25.5}, "others_too": {3: 22.4, 4: 21.0, 5: 21.0}, "nothing_trained": {}}
    assert over_seeds(own, systems) == dict.fromkeys(systems)
    assert spread_over_seeds([own, *systems.values()]).degrees == 4  # five runs, that hang together


def trained_anew(**scores: list[float]) -> dict[str, dict]:
    return {name: {(name, place): score for place, score in enumerate(of_it)} for name, of_it in scores.items()}


def test_over_seeds_p_is_as_often_small_as_it_says():
    """Systems that differ in nothing but luck."""
    draw = np.random.default_rng(5).normal(30, 0.5, (4000, 5, 3)).tolist()
    together = [trained_anew(**dict(zip(("own", "first", "b", "c", "d"), scores, strict=True))) for scores in draw]
    found = [over_seeds(systems.pop("own"), systems)["first"] for systems in together]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.01)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.025)


def test_p_of_many_comparisons_is_corrected_by_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # 0.04 no less than 2 · 0.03
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_rates_are_compared_by_drawing_sentences_and_counting_anew():
    draw = np.random.default_rng(1)
    own, other = (
        np.stack([np.append(draw.poisson(mean, (30, 6)), draw.poisson(9, (30, 1)), axis=1)] * 2) for mean in (1, 2)
    )
    other[1, :5] += 1  # its runs differ
    found = compare_rates(own, {"same": own, "other": other}, in_per_cent, resamples=80, seed=3)
    assert {(rate.difference, rate.p) for rate in found["same"]} == {(0.0, 1.0)}
    for measure in range(6):

        def told(runs, times, measure=measure):
            return mean(
                100
                * sum(int(n) * int(row[measure]) for n, row in zip(times, run, strict=True))
                / sum(int(n) * int(row[-1]) for n, row in zip(times, run, strict=True))
                for run in runs
            )

        once = np.ones(30, dtype=int)
        rate = found["other"][measure]
        assert rate.value == pytest.approx(told(other, once))
        assert rate.difference == pytest.approx(told(other, once) - told(own, once))
        apart = [told(other, times) - told(own, times) for times in draws(30, 80, 3)]
        as_far = sum(abs(one - mean(apart)) >= abs(rate.difference) for one in apart)
        assert rate.p == pytest.approx((as_far + 1) / 81)


def test_sentences_that_are_alike_count_once_where_they_are_drawn_together():
    references, poor, good = texts(40, 0.3, 0.3, seed=2)
    once = (statistics_of(poor, references), statistics_of(good, references))
    tenfold = [np.repeat(statistics, 10, axis=1) for statistics in once]
    _, found = compare_systems(once[0], {"good": once[1]}, resamples=300)
    _, alone = compare_systems(tenfold[0], {"good": tenfold[1]}, resamples=300)
    _, together = compare_systems(tenfold[0], {"good": tenfold[1]}, resamples=300, together=10)
    assert alone.p_bootstrap < 0.02 < found.p_bootstrap
    for name in ("bleu", "low", "high", "difference_low", "difference_high", "p_bootstrap", "p_randomization"):
        assert getattr(together, name) == pytest.approx(getattr(found, name)), name
    assert (together.better, together.worse) == (found.better * 10, found.worse * 10)


def test_rates_are_drawn_together_too_and_the_last_have_what_is_left():
    own, other = np.random.default_rng(1).integers(0, 9, (2, 1, 7, 2))
    (told,) = compare_rates(own, {"other": other}, lambda sums: sums[..., :1], resamples=60, together=3, seed=2)[
        "other"
    ]
    in_three = [[one[0, at : at + 3, 0].sum() for at in (0, 3, 6)] for one in (own, other)]
    apart = draws(3, 60, 2) @ (np.array(in_three[1]) - in_three[0])
    assert told.difference == (other - own)[..., 0].sum()
    assert told.p == bootstrap_p(apart, told.difference)
