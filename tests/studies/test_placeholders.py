"""Figures that are filled into the text of a study."""

import pytest

from nmt.errors import ConfigurationError
from studies.placeholders import fill_in_figures


def tables(*bleu: float) -> dict:
    names = ("attention=dot", "attention=dot dropout=0.5", "memory=buffer")
    systems = [
        {"system": name, "scores": {"bleu": {"mean": value}, "chrf": {"mean": 60.0}}, "validation": None}
        for name, value in zip(names, bleu, strict=True)
    ]
    systems[0]["scores"]["repeated"] = {"mean": 9.0}
    systems[2]["seconds"] = {"mean": 61.2}
    return {
        "systems": systems,
        "longer": {"memory=buffer": [{"than": 10, "difference": 0.5}, {"than": 30, "difference": -1.25}]},
        "adequacy": {"attention=dot": {"repeated": {"value": 1.005}}},
        "alignment": {},
    }


def compared(baseline: str, *p_values: float) -> dict:
    """Three systems of which the others are compared with `baseline`: p over sentences, and twice this over seeds."""
    of_baseline = tables(30.0, 31.0, 32.0)
    p_values = iter(p_values)
    for row in of_baseline["systems"]:
        row["difference"] = None
        if row["system"] != baseline:
            p = next(p_values)
            by_sentence = {"p_bootstrap": p, "difference_low": -0.25, "difference_high": 1.75}
            row["difference"] = {"bleu": 0.75, "by_sentence": by_sentence, "p_seeds": 2 * p}
    rates = {"memory=buffer": {"repeated": {"value": 2.0, "difference": -0.5, "p": 0.03, "p_seeds": None}}}
    return of_baseline | {"baseline": baseline, "adequacy": rates}


KEPT = {
    "captions": {"tests": {"old": tables(38.226, 37.5, 39.0), "new": tables(30.1, 31.125, 33.5)}},
    "prose": {"tests": {"test": tables(11.0, 12.0, 13.0)}},
    "compared": {
        "tests": {"test": compared("attention=dot", 0.02, 0.0001)},
        "other_baselines": {"attention=dot dropout=0.5": {"test": compared("attention=dot dropout=0.5", 0.3, 0.04)}},
    },
}


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        ("{bleu of attention=dot}", "38.23 and 30.10"),
        ("{bleu of dropout less attention=dot}", "−0.73 and 1.02"),
        ("{bleu of memory=buffer\n  less attention=dot on new:.1f}", "3.4"),
        ("{bleu of buffer less attention=dot & dropout on old}", "1.14"),
        ("{bleu of buffer less 39.50 and 31.25}", "−0.50 and 2.25"),
        ("{chrf of buffer less bleu of dropout on old:.0f}", "22"),
        ("{bleu of buffer less dropout in prose}", "1.00"),
        ("{repeated of attention=dot on old:.3f}", "1.005"),
        ("{gain_beyond_30 of buffer on old:.1f}", "−1.2"),
        ("{seconds of buffer on old:.0f}", "61"),
        ("{bleu_p_sentences of buffer less attention=dot in compared}", "<0.001"),
        ("{bleu_p_sentences of dropout less attention=dot in compared}", "0.020"),
        ("{bleu_p_seeds of buffer less dropout in compared}", "0.080"),
        ("{bleu_p_seeds_corrected of buffer less dropout on test in compared}", "0.160"),
        ("{repeated_p_sentences of buffer less attention=dot in compared}", "0.030"),
        (
            "{bleu_low of buffer less dropout in compared:.1f} and {bleu_high of buffer less dropout in compared}",
            "−0.2 and 1.75",
        ),
    ],
)
def test_figures_come_from_the_tables(figure, text):
    assert fill_in_figures(f"It has {figure}, then.", "captions", KEPT) == f"It has {text}, then."


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        ("{bleu dot}", ": is no figure. Fix: write {SCORE of SYSTEM}"),
        ("{bleu of attention=dt}", ": no system attention=dt; there are attention=dot, "),
        ("{bleu of dot}", ": more than one system dot: attention=dot, attention=dot dropout=0.5"),
        ("{blue of buffer}", ": no score blue; there are bleu, chrf"),
        ("{validation of buffer}", ": memory=buffer has no validation"),
        ("{bleu of buffer on news}", ": no test set news; there are old, new"),
        ("{bleu of buffer in prse}", ": no study prse; there are captions, prose"),
        ("{gain_beyond_3 of buffer}", ": no length 3; there are 10, 30"),
        ("{gain_beyond_30 of attention=dot}", ": no length 30; there are none"),
        ("{bleu_p_seeds of attention=dot less buffer in compared}", ": no baseline buffer; there are attention=dot, "),
        ("{blue_p_seeds of buffer less dropout in compared}", ": no measure blue; there are bleu, repeated"),
        ("{repeated_p_seeds of buffer less dropout in compared}", ": memory=buffer has no repeated_p_seeds"),
        ("{bleu of buffer less 39.00}", ": needs a published figure for each of 2 test sets"),
    ],
)
def test_a_figure_that_is_in_no_table_is_named(figure, text):
    with pytest.raises(ConfigurationError) as raised:
        fill_in_figures(figure, "captions", KEPT)
    assert str(raised.value).startswith(f"captions: {figure}{text}")
