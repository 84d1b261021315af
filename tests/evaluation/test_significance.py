"""Significance tests against enumeration, against scores of resampled texts, and against sacrebleu."""

import random
from fractions import Fraction
from itertools import permutations, product
from math import gamma, pi, sqrt
from statistics import mean

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from nmt.evaluation.bleu import bleu_from_totals, corpus_bleu, sentence_statistics
from nmt.evaluation.over_under_translation import compute_measures
from nmt.evaluation.significance import (
    bootstrap_p,
    compare_rates,
    compare_systems,
    draws,
    holm,
    p_over_seeds,
    randomization_p,
    replaced_sentences,
    sign_test_p,
    spread_over_seeds,
    student_p,
)

PLAIN = {"tokenize": "none", "lowercase": False}


def texts(sentences, *mistakes, seed=0):
    """Return references, and for each rate of mistakes a system with that share of wrong words."""
    draw = random.Random(seed)
    references = [draw.choices("abcdefghijkl", k=draw.randint(5, 15)) for _ in range(sentences)]
    systems = [
        [" ".join("x" if draw.random() < wrong else word for word in line) for line in references] for wrong in mistakes
    ]
    return [" ".join(line) for line in references], *systems


def compare_texts(baseline, systems, references, **options):
    others = {name: statistics_of(system, references) for name, system in systems.items()}
    return compare_systems(statistics_of(baseline, references), others, **options)


def statistics_of_runs(systems, references):
    return np.concatenate([statistics_of(system, references) for system in systems])


def statistics_of(system, references):
    return sentence_statistics(system, [references], **PLAIN)[None]


def test_the_same_system_is_never_significantly_better():
    references, system = texts(50, 0.2)
    _, same = compare_texts(system, {"same": list(system)}, references, resamples=100)
    assert (same.p_bootstrap, same.p_randomization, same.p_sign) == (1, 1, 1)
    assert (same.difference, same.difference_low, same.difference_high, same.better, same.worse) == (0, 0, 0, 0, 0)


def test_a_system_better_in_one_sentence_is_not_significantly_better():
    references, system = texts(50, 0.2)
    other = [references[0], *system[1:]]
    assert other[0] != system[0]
    _, result = compare_texts(system, {"other": other}, references, resamples=200)
    assert result.difference > 0
    assert (result.better, result.worse, result.p_sign, result.p_randomization) == (1, 0, 1, 1)
    assert result.p_bootstrap > 0.05


def test_much_better_system_is_significant_and_the_baseline_is_first():
    references, poor, good, awful = texts(200, 0.3, 0.1, 0.6)
    baseline, better, worse = compare_texts(poor, {"good": good, "awful": awful}, references)
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


def test_result_depends_on_the_seed_and_not_on_other_systems():
    references, first, second, third = texts(40, 0.3, 0.28, 0.2)
    both = compare_texts(first, {"second": second, "third": third}, references, resamples=100)
    alone = compare_texts(first, {"third": third}, references, resamples=100)
    other = compare_texts(first, {"third": third}, references, resamples=100, seed=1)
    assert [both[0], both[2]] == alone
    assert other[1].low != alone[1].low


def test_p_of_equal_systems_is_roughly_uniform():
    results = []
    for seed in range(60):
        references, first, second = texts(60, 0.2, 0.2, seed=seed)
        results.append(compare_texts(first, {"second": second}, references, resamples=99)[1])
    for name in ("p_bootstrap", "p_randomization", "p_sign"):
        p = np.array([getattr(result, name) for result in results])
        assert (p <= 0.05).mean() <= 0.15
        assert 0.35 < p.mean() < 0.7


def test_systems_of_several_runs_are_compared_by_their_mean():
    references, *systems = texts(30, 0.3, 0.25, 0.2, 0.22, 0.18)
    base, other = statistics_of_runs(systems[:2], references), statistics_of_runs(systems[2:], references)
    baseline, result = compare_systems(base, {"other": other}, resamples=80, seed=4)
    scores = [corpus_bleu(system, references).score for system in systems]
    assert (baseline.bleu, result.bleu) == pytest.approx((mean(scores[:2]), mean(scores[2:])))
    drawn_means = []
    for drawn in draws(30, 80, 4).astype(int):
        chosen = [index for index, times in enumerate(drawn) for _ in range(times)]
        texts_drawn = [[system[index] for index in chosen] for system in systems]
        drawn_scores = [corpus_bleu(text, [references[index] for index in chosen]).score for text in texts_drawn]
        drawn_means.append((mean(drawn_scores[:2]), mean(drawn_scores[2:])))
    base_means, other_means = np.array(drawn_means).T
    assert (baseline.low, baseline.high) == pytest.approx(tuple(np.percentile(base_means, (2.5, 97.5))))
    differences = other_means - base_means
    assert (result.difference_low, result.difference_high) == pytest.approx(
        tuple(np.percentile(differences, (2.5, 97.5)))
    )
    assert result.p_bootstrap == bootstrap_p(differences, result.difference, 30)


def test_more_runs_make_a_small_difference_significant():
    references, *systems = texts(80, *[0.22] * 6, *[0.18] * 6, seed=1)
    poor, good = statistics_of_runs(systems[:6], references), statistics_of_runs(systems[6:], references)
    _, one = compare_systems(poor[:1], {"good": good[:1]}, resamples=500)
    _, six = compare_systems(poor, {"good": good}, resamples=500)
    assert min(one.p_bootstrap, one.p_randomization) > 0.05
    assert max(six.p_bootstrap, six.p_randomization) < 0.01


def test_randomization_shuffles_each_sentence_among_all_runs():
    references, *systems = texts(5, 0.3, 0.2, 0.3, seed=5)
    runs = statistics_of_runs(systems, references)
    observed = [corpus_bleu(system, references).score for system in systems]
    observed_distance = abs(observed[0] - mean(observed[1:]))
    distances = []
    for shuffled in product(permutations(range(3)), repeat=5):
        totals = np.array([runs[[who[place] for who in shuffled], range(5)].sum(0) for place in range(3)])
        base, *others = bleu_from_totals(totals)
        distances.append(abs(base - mean(others)))
    exact = np.mean(np.array(distances) >= observed_distance - 1e-9)
    assert 0.05 < exact < 0.95
    assert randomization_p(runs[:1], runs[1:], 20_000, seed=0) == pytest.approx(exact, abs=0.02)


def test_sentences_are_replaced_in_the_translations_of_all_runs():
    references, *systems = texts(12, 0.3, 0.2, 0.25)
    base, others = systems[0], systems[1:]
    unchanged = corpus_bleu(base + base, references * 2).score  # twice, because the others are two runs
    changes = []
    for index in range(12):
        first, second = ([*base[:index], other[index], *base[index + 1 :]] for other in others)
        changes.append(corpus_bleu(first + second, references * 2).score - unchanged)
    better, worse = sum(change > 1e-9 for change in changes), sum(change < -1e-9 for change in changes)
    counts = replaced_sentences(statistics_of(base, references), statistics_of_runs(others, references))
    assert counts == (better, worse)
    assert min(counts) > 0


def test_resampled_test_sets_have_the_same_size():
    drawn = draws(7, 50, seed=1)
    assert drawn.shape == (50, 7)
    assert (drawn.sum(1) == 7).all()
    assert drawn.var() == pytest.approx(6 / 7, rel=0.25)  # of a binomial count: 7 · 1/7 · 6/7


def test_bootstrap_counts_both_sides_and_equal_distances():
    differences = np.array([0.0, 1.0, 2.0, 3.0, 4.0])  # from their mean: 2 1 0 1 2
    assert bootstrap_p(differences, 1.0, 20) == (4 + 1) / (5 + 1)
    assert bootstrap_p(differences, -2.0, 20) == (2 + 1) / (5 + 1)
    assert bootstrap_p(differences, 2.5, 20) == (0 + 1) / (5 + 1)


@pytest.mark.parametrize("kind", ["ar", "bs"])
def test_p_agrees_with_sacrebleu_if_no_resample_equals_the_difference(kind):
    references, first, second = texts(150, 0.2, 0.177, seed=2)
    systems, metrics = [("first", first), ("second", second)], {"BLEU": BLEU(tokenize="none", force=True)}
    (_, theirs) = PairedTest(systems, metrics, [references], test_type=kind, n_samples=4000)()[1]["BLEU"]
    _, ours = compare_texts(first, {"second": second}, references, resamples=4000)
    assert ours.bleu == pytest.approx(theirs.score)
    if kind == "ar":
        assert 0.01 < theirs.p_value < 0.5
        assert ours.p_randomization == pytest.approx(theirs.p_value, abs=0.03)
    else:
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci, rel=0.1)
        assert theirs.p_value <= ours.p_bootstrap + 0.02  # sacrebleu counts one side only
        assert ours.p_bootstrap == pytest.approx(ours.p_randomization, abs=0.05)


def test_better_and_worse_sentences_change_the_bleu_of_the_text():
    references, first, second = texts(30, 0.3, 0.2)
    second[4] = ""
    second[5] = first[5]
    unchanged = corpus_bleu(first, references).score
    changes = [
        corpus_bleu([*first[:index], line, *first[index + 1 :]], references).score - unchanged
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


@pytest.mark.parametrize("sentences", [1, 19, 20])
def test_fewer_than_twenty_sentences_have_no_interval_and_no_bootstrap(sentences):
    references, first, second = texts(sentences, 0.3, 0.1)
    baseline, other = compare_texts(first, {"other": second}, references, resamples=50)
    resampled = (baseline.low, other.high, other.difference_low, other.p_bootstrap)
    assert [value is None for value in resampled] == [sentences < 20] * 4
    assert None not in (other.p_randomization, other.p_sign)


def test_empty_lines_count_as_translations():
    references, good = texts(60, 0.1)
    _, other = compare_texts([""] * 60, {"good": good}, references, resamples=200)
    assert other.difference == pytest.approx(other.bleu)
    assert other.p_randomization < 0.01
    assert (other.better, other.worse) == (60, 0)


def test_error_names_a_system_with_another_number_of_sentences():
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
def test_students_t_agrees_with_tables(t, degrees, p):
    assert student_p(t, degrees) == pytest.approx(p, abs=1e-5)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 12, 35])
def test_students_t_is_the_integral_of_its_density(degrees):
    points = np.linspace(-1.7, 1.7, 200_001)
    density = (1 + points**2 / degrees) ** (-(degrees + 1) / 2)
    total = sqrt(degrees * pi) * gamma(degrees / 2) / gamma((degrees + 1) / 2)
    assert student_p(1.7, degrees) == pytest.approx(1 - np.trapezoid(density, points) / total, abs=1e-9)


def test_over_seeds_two_systems_are_compared_by_students_t():
    """Here t = 3 / √(1 · (1/3 + 1/3)) = 3.674, with four degrees of freedom."""
    systems = scores_by_run(base=[1.0, 2.0, 3.0], other=[4.0, 5.0, 6.0])
    assert p_over_seeds(systems.pop("base"), systems) == {"other": pytest.approx(0.021312, abs=1e-6)}


def test_over_seeds_the_spread_is_pooled_over_all_systems():
    systems = scores_by_run(base=[20.0, 20.2], a=[21.0, 21.6], b=[20.0, 20.0, 20.3], alone=[22.0])
    base = systems.pop("base")
    squares = 0.02 + 0.18 + 0.06  # 1 + 1 + 2 degrees of freedom
    expected = {
        "a": student_p((21.3 - 20.1) / sqrt(squares / 4 * (1 / 2 + 1 / 2)), 4),
        "b": student_p((20.1 - 20.1) / sqrt(squares / 4 * (1 / 3 + 1 / 2)), 4),
        "alone": student_p((22.0 - 20.1) / sqrt(squares / 4 * (1 / 1 + 1 / 2)), 4),
    }
    assert spread_over_seeds([base, *systems.values()]) == (pytest.approx(sqrt(squares / 4)), 4)
    assert p_over_seeds(base, systems) == pytest.approx(expected)
    assert expected["alone"] < expected["a"] < 0.05 < expected["b"]


@pytest.mark.parametrize("others", [{"a": [25.0]}, {"a": [20.0], "b": [22.0]}, {"a": [21.0, 21.0]}])
def test_over_seeds_p_is_none_if_no_system_has_runs_that_differ(others):
    systems = scores_by_run(base=[20.0], **others)
    assert p_over_seeds(systems.pop("base"), systems) == dict.fromkeys(others)


def test_over_seeds_a_run_scored_by_several_systems_counts_once():
    """Four searches with the same three runs are not twelve trainings."""
    base, other = {1: 20.0, 2: 21.0, 3: 22.0}, {4: 23.0, 5: 24.0, 6: 26.0}
    searches = {"wider": {1: 20.5, 2: 21.5, 3: 22.5}, "other": other, "other_wider": {4: 23.5, 5: 24.0, 6: 26.5}}
    spread = spread_over_seeds([base, *searches.values()])
    middle, wider = 73 / 3, 74 / 3
    squares = [((value - middle) ** 2 + (wide - wider) ** 2) / 2 for value, wide in ((23, 23.5), (24, 24), (26, 26.5))]
    assert spread == (pytest.approx(sqrt((2 + sum(squares)) / 4)), 4)
    assert p_over_seeds(base, searches)["other"] == pytest.approx(
        student_p((middle - 21) / (spread.deviation * sqrt(2 / 3)), 4)
    )


def test_over_seeds_systems_with_the_same_runs_are_compared_in_pairs():
    """Differences are 0.3, 0.5, 0.4: t = 0.4 / (0.1 / √3) = 6.93, two degrees of freedom."""
    base = {1: 20.0, 2: 25.0, 3: 22.0}
    systems = {"wider": {1: 20.3, 2: 25.5, 3: 22.4}, "equal_gain": {run: base[run] + 0.3 for run in base}}
    assert p_over_seeds(base, systems) == {"wider": pytest.approx(0.0202, abs=1e-4), "equal_gain": None}


def test_over_seeds_p_is_none_if_only_some_runs_are_shared():
    base = {1: 20.0, 2: 25.0, 3: 22.0}
    systems = {"fewer": {1: 20.3, 2: 25.5}, "others_too": {3: 22.4, 4: 21.0, 5: 21.0}, "nothing_trained": {}}
    assert p_over_seeds(base, systems) == dict.fromkeys(systems)
    # runs 1 and 2: (2/3 + 1/2) / 2; runs 3, 4 and 5: 2/3; together 3.17
    assert spread_over_seeds([base, *systems.values()]).degrees == 3


def test_over_seeds_the_spread_is_right_if_systems_share_some_runs():
    """As where a search was evaluated for some seeds only."""
    draw = np.random.default_rng(5).normal(30, 0.5, (4000, 4)).tolist()
    shared = [(0, 1), (1, 2), (0, 1, 2, 3)]
    spreads = [spread_over_seeds([{run: scores[run] for run in runs} for runs in shared]) for scores in draw]
    assert np.mean([spread.deviation**2 for spread in spreads]) == pytest.approx(0.5**2, rel=0.03)


def scores_by_run(**scores: list[float]) -> dict[str, dict]:
    return {name: {(name, place): score for place, score in enumerate(values)} for name, values in scores.items()}


def test_over_seeds_p_of_equal_systems_is_uniform():
    """Systems with the same mean and spread."""
    draw = np.random.default_rng(5).normal(30, 0.5, (4000, 5, 3)).tolist()
    repetitions = [scores_by_run(**dict(zip(("base", "first", "b", "c", "d"), scores, strict=True))) for scores in draw]
    p = [p_over_seeds(systems.pop("base"), systems)["first"] for systems in repetitions]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.01)
    assert np.mean(np.array(p) < 0.5) == pytest.approx(0.5, abs=0.025)


def test_holm_corrects_p_of_many_comparisons():
    # 0.04 becomes 2 · 0.03 too, because corrected values keep their order
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_rates_are_compared_by_resampled_counts():
    draw = np.random.default_rng(1)
    base, other = (
        np.stack([np.append(draw.poisson(mean, (30, 6)), draw.poisson(9, (30, 1)), axis=1)] * 2) for mean in (1, 2)
    )
    other[1, :5] += 1  # its runs differ
    rates = compare_rates(base, {"same": base, "other": other}, compute_measures, resamples=80, seed=3)
    assert {(rate.difference, rate.p) for rate in rates["same"]} == {(0.0, 1.0)}
    for measure in range(6):

        def mean_rate(runs, times, measure=measure):
            return mean(
                100
                * sum(int(n) * int(row[measure]) for n, row in zip(times, run, strict=True))
                / sum(int(n) * int(row[-1]) for n, row in zip(times, run, strict=True))
                for run in runs
            )

        once = np.ones(30, dtype=int)
        rate = rates["other"][measure]
        assert rate.value == pytest.approx(mean_rate(other, once))
        assert rate.difference == pytest.approx(mean_rate(other, once) - mean_rate(base, once))
        differences = [mean_rate(other, times) - mean_rate(base, times) for times in draws(30, 80, 3)]
        extreme = sum(abs(one - mean(differences)) >= abs(rate.difference) for one in differences)
        assert rate.p == pytest.approx((extreme + 1) / 81)


def test_repeated_sentences_count_once_if_resampled_as_one_block():
    references, poor, good = texts(40, 0.3, 0.3, seed=2)
    once = (statistics_of(poor, references), statistics_of(good, references))
    tenfold = [np.repeat(statistics, 10, axis=1) for statistics in once]
    _, result = compare_systems(once[0], {"good": once[1]}, resamples=300)
    _, alone = compare_systems(tenfold[0], {"good": tenfold[1]}, resamples=300)
    _, together = compare_systems(tenfold[0], {"good": tenfold[1]}, resamples=300, together=10)
    assert alone.p_bootstrap < 0.02 < result.p_bootstrap
    for name in ("bleu", "low", "high", "difference_low", "difference_high", "p_bootstrap", "p_randomization"):
        assert getattr(together, name) == pytest.approx(getattr(result, name)), name
    assert (together.better, together.worse) == (result.better * 10, result.worse * 10)


def test_rates_are_resampled_in_blocks_and_the_last_may_be_short():
    base, other = np.random.default_rng(1).integers(0, 9, (2, 1, 61, 2))
    options = {"resamples": 60, "together": 3, "seed": 2}
    (rate,) = compare_rates(base, {"other": other}, lambda sums: sums[..., :1], **options)["other"]
    blocks = [[counts[0, start : start + 3, 0].sum() for start in range(0, 61, 3)] for counts in (base, other)]
    differences = draws(21, 60, 2) @ (np.array(blocks[1]) - blocks[0])
    assert rate.difference == (other - base)[..., 0].sum()
    assert rate.p == bootstrap_p(differences, rate.difference, 21)
