"""What the keys of a command name: runs and their lists, and values that mean nothing."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nmt.config.schema import defaults_of
from nmt.errors import ConfigurationError
from nmt.translate.loading import _whose_candidates, check_values


def run(name: str, *, is_of_candidates: bool) -> SimpleNamespace:
    return SimpleNamespace(folder=Path(name), is_of_candidates=is_of_candidates)


def test_runs_with_and_without_lists_are_not_searched_by_the_order_they_are_named_in():
    having, lacking, also = (run(name, is_of_candidates=name != "lacking") for name in ("having", "lacking", "also"))
    for runs in ([having, lacking], [lacking, having]):
        with pytest.raises(ConfigurationError, match="having was trained with candidate lists, others were not"):
            _whose_candidates(runs, None)
        assert _whose_candidates(runs, True) is having
    assert _whose_candidates([also, having], None) is also
    assert _whose_candidates([lacking], None) is lacking


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("weights=2", "weights=2: must be a list of numbers, one for each run"),
        ("weights=[1,a]", r"weights=\[1, 'a'\]: must be a list of numbers"),
        ("candidates=maybe", "candidates=maybe: must be true or false, or null"),
        ("link_threshold=high", "link_threshold=high: must be a number, or null"),
        ("batch_size=0", "batch_size=0: must be at least 1"),
    ],
)
def test_values_of_another_kind_are_told(value, told):
    settings = OmegaConf.merge(defaults_of("evaluate"), OmegaConf.from_dotlist([value]))
    with pytest.raises(ConfigurationError, match=told):
        check_values(settings)


@pytest.mark.parametrize("value", ["weights=[2,0.5]", "candidates=false", "link_threshold=0.1", "weights=null"])
def test_values_of_their_kind_are_not(value):
    check_values(OmegaConf.merge(defaults_of("evaluate"), OmegaConf.from_dotlist([value])))
