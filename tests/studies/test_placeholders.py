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


KEPT = {
    "captions": {"tests": {"old": tables(38.226, 37.5, 39.0), "new": tables(30.1, 31.125, 33.5)}},
    "prose": {"tests": {"test": tables(11.0, 12.0, 13.0)}},
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
        ("{bleu of buffer less 39.00}", ": needs a published figure for each of 2 test sets"),
    ],
)
def test_a_figure_that_is_in_no_table_is_named(figure, text):
    with pytest.raises(ConfigurationError) as raised:
        fill_in_figures(figure, "captions", KEPT)
    assert str(raised.value).startswith(f"captions: {figure}{text}")
