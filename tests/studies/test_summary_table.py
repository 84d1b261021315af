"""The leaderboard over several test sets, from tables made by hand."""

import pytest

from studies.summary_table import Comparison, correct, render_summary

MEASURE = "repeated_2grams"


def system(name, bleu, difference=None, p=None, seeds=None, validation=None):
    comparison = (
        None
        if difference is None
        else {
            "bleu": difference,
            "by_sentence": {"p_bootstrap": p, "difference_low": difference - 0.5, "difference_high": difference + 0.5},
            "p_seeds": seeds,
        }
    )
    return {
        "system": name,
        "runs": ["a", "b"],
        "scores": {"bleu": {"mean": bleu, "deviation": 0.25}},
        "difference": comparison,
        "validation": validation,
        "parameters": 1234,
    }


def rate(difference, p, seeds):
    return {MEASURE: {"value": 1 + difference, "difference": difference, "p": p, "p_seeds": seeds}}


def tables(*systems, **rates):
    validation = "valid/bleu" if any(one["validation"] for one in systems) else None
    adequacy = {"plain": rate(0, 1, None)} | rates
    adequacy = {name: adequacy.get(name, {}) for name in (one["system"] for one in systems)}
    by_seeds = any((one["difference"] or {}).get("p_seeds") for one in systems)
    return {
        "baseline": "plain",
        "systems": list(systems),
        "adequacy": adequacy,
        "validation": validation,
        "spread_over_seeds": {"deviation": 0.356, "degrees": 17} if by_seeds else None,
    }


def test_p_is_corrected_for_each_measure_over_all_test_sets():
    comparisons = [
        Comparison("bleu", "old", "a", 1, 1, 0.01, None),
        Comparison("again", "old", "a", 1, 1, 0.03, 0.5),
        Comparison("bleu", "new", "a", 1, 1, 0.02, 0.04),
        Comparison("bleu", "new", "b", 1, 1, 0.6, 0.01),
    ]
    corrected = correct(comparisons)
    assert [one.p_sentences for one in corrected] == pytest.approx([0.03, 0.03, 0.04, 0.6])
    assert [one.p_seeds for one in corrected] == [None, 0.5, pytest.approx(0.04), pytest.approx(0.02)]
    assert [one.holds for one in corrected] == [False, False, True, False]


def test_differences_over_sentences_and_seeds_are_in_bold():
    old = tables(
        system("plain", 30, validation={"mean": 31.0}),
        system("better", 31, 1.0, 0.001, 0.002),
        system("lucky", 31, 1.0, 0.001, 0.3),
        better=rate(-0.4, 0.001, 0.001),
        lucky=rate(-0.3, 0.002, 0.9),
    )
    new = tables(
        system("plain", 20, validation={"mean": 31.0}),
        system("better", 20, 0.0, 1.0, 0.9),
        system("lucky", 20.5, 0.5, 0.02, 0.6),
        better=rate(-0.1, 0.8, 0.9),
        lucky=rate(0.1, 0.7, 0.9),
    )
    text = render_summary({"old": old, "new": new})
    heads, _, *rows = [line for line in text.split("\n\n")[1].split("\n") if line]
    assert heads.split(" | ")[:5] == ["| system", "n", "parameters", "valid/bleu", "BLEU old"]
    assert [row.split(" | ")[0] for row in rows] == ["| lucky", "| better", "| plain"]  # the best on average first
    lucky, better, plain_row = ([cell.strip() for cell in row.split("|")[4:-1]] for row in rows)
    assert lucky[:5] == ["", "31.00 ± 0.25", "+1.00 [+0.50, +1.50]", "0.004", "0.900"]
    assert lucky[5:] == ["20.50 ± 0.25", "+0.50 [+0.00, +1.00]", "0.040", "1.000"]
    assert better[:5] == ["", "31.00 ± 0.25", "**+1.00 [+0.50, +1.50]**", "0.004", "0.008"]
    assert better[5:] == ["20.00 ± 0.25", "+0.00 [−0.50, +0.50]", "1.000", "1.000"]
    assert plain_row == ["31.00", "30.00 ± 0.25", "baseline", "", "", "20.00 ± 0.25", "baseline", "", ""]
    assert "for the 4 comparisons of this table" in text
    assert "pooled deviation of all systems, 0.36 BLEU on old, 0.36 BLEU on new." in text
    others = text.split("\n\n")[3].strip().split("\n")[2:]
    assert others == [
        "| repeated 2grams | old | better | 0.60 | **−0.40** | 0.004 | 0.004 |",
        "| repeated 2grams | old | lucky | 0.70 | −0.30 | 0.006 | 1.000 |",
    ]


def test_columns_without_any_p_are_left_out():
    one = tables(system("plain", 30), system("other", 31.5, 1.5, 0.001), other=rate(0.1, 0.001, None))
    text = render_summary({"old": one, "new": one})
    assert "p (seeds)" not in text
    assert "| other | 2 | 1,234 | 31.50 ± 0.25 | +1.50 [+1.00, +2.00] | 0.002 | 31.50 ± 0.25 |" in text
    assert "| repeated 2grams | old | other | 1.10 | +0.10 | 0.002 |" in text
    one["systems"][1]["difference"]["by_sentence"] = dict.fromkeys(("p_bootstrap", "difference_low", "difference_high"))
    assert "| other | 2 | 1,234 | 31.50 ± 0.25 | +1.50 | 31.50 ± 0.25 | +1.50 |" in render_summary(
        {"old": one, "new": one}
    )


def test_validation_is_shown_where_all_runs_monitored_the_same():
    one, other = (tables(system("plain", 30, validation={"mean": 2.5})) for _ in range(2))
    assert "| valid/bleu |" in render_summary({"old": one, "new": other})
    other["validation"] = "valid/loss"
    assert "2.50" not in render_summary({"old": one, "new": other})


def test_there_is_no_second_table_without_other_differences():
    one = tables(system("plain", 30), system("other", 30.1, 0.1, 0.6, None), other=rate(0.1, 0.5, None))
    assert "repeated" not in render_summary({"old": one, "new": one})


def test_a_single_system_is_compared_with_nothing():
    text = render_summary({"old": tables(system("plain", 30))})
    assert "| plain |" in text
    assert "corrected" not in text
