"""The keys of translate.py and evaluate.py: candidate lists of several runs, and invalid values."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError
from nmt.translate.loading import _choose_candidate_run, check_settings


def run(name: str, *, has_candidates: bool) -> SimpleNamespace:
    return SimpleNamespace(folder=Path(name), has_candidates=has_candidates)


def test_the_order_of_runs_does_not_decide_if_candidate_lists_are_used():
    having, lacking, also = (run(name, has_candidates=name != "lacking") for name in ("having", "lacking", "also"))
    for runs in ([having, lacking], [lacking, having]):
        with pytest.raises(ConfigurationError, match="having was trained with candidate lists, others were not"):
            _choose_candidate_run(runs, None)
        assert _choose_candidate_run(runs, True) is having
    assert _choose_candidate_run([also, having], None) is also
    assert _choose_candidate_run([lacking], None) is lacking


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("weights=2", "weights=2: must be a list of numbers, one for each run"),
        ("weights=[1,a]", r"weights=\[1, 'a'\]: must be a list of numbers"),
        ("candidates=maybe", "candidates=maybe: must be true or false, or null"),
        ("link_threshold=high", "link_threshold=high: must be a number, or null"),
        ("batch_size=0", "batch_size=0: must be at least 1"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(value, message):
    settings = OmegaConf.merge(load_defaults("evaluate"), OmegaConf.from_dotlist([value]))
    with pytest.raises(ConfigurationError, match=message):
        check_settings(settings)


@pytest.mark.parametrize("value", ["weights=[2,0.5]", "candidates=false", "link_threshold=0.1", "weights=null"])
def test_a_value_of_the_right_type_is_accepted(value):
    check_settings(OmegaConf.merge(load_defaults("evaluate"), OmegaConf.from_dotlist([value])))
