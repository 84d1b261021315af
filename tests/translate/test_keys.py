"""The keys of translate.py and evaluate.py: candidate lists of several runs, and invalid values."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nmt.cli.arguments import read_arguments
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError
from nmt.search.settings import Search
from nmt.translate.loading import _choose_candidate_run, build_search, check_settings


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
        ("batch_size=null", "batch_size=null: must be at least 1"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(value, message):
    settings = OmegaConf.merge(load_defaults("evaluate"), OmegaConf.from_dotlist([value]))
    with pytest.raises(ConfigurationError, match=message):
        check_settings(settings)


def search(*arguments: str, runs: list[dict]) -> Search:
    """Return the search of a command for runs whose settings name these searches."""
    settings, _ = read_arguments("translate", list(arguments), usage="")
    return build_search(settings, [SimpleNamespace(folder=Path(f"run{n}"), search=run) for n, run in enumerate(runs)])


def test_a_typed_search_key_overrides_the_runs_and_the_runs_overrides_the_default():
    recipe = {"beam": 10, "length_penalty": 0.0}
    assert search(runs=[{}]) == Search(beam=5, length_penalty=1.0)  # a run from before runs named a search
    assert search(runs=[recipe]) == Search(beam=10, length_penalty=0.0)
    assert search("beam=5", "nbest=2", runs=[recipe]) == Search(beam=5, length_penalty=0.0, nbest=2)
    assert search("beam=null", "nbest=7", runs=[recipe]) == Search(beam=10, length_penalty=0.0, nbest=7)


def test_runs_with_different_searches_need_a_typed_search():
    runs = [{"beam": 10, "length_penalty": 0.0}, {"beam": 12, "length_penalty": 0.0}, {}]
    message = r"runs: run0 is searched with beam=10, run1 with beam=12. Fix: type one search, such as beam=10$"
    with pytest.raises(ConfigurationError, match=message):
        search(runs=runs)
    message = r"run0 is searched with length_penalty=0.0, run2 with length_penalty=1.0. Fix: type one search, such as l"
    with pytest.raises(ConfigurationError, match=message):
        search("beam=10", runs=runs)
    assert search("beam=10", "length_penalty=0", runs=runs) == Search(beam=10, length_penalty=0.0)
    assert search(runs=[runs[0], dict(runs[0])]) == Search(beam=10, length_penalty=0.0)


@pytest.mark.parametrize(
    ("typed", "message"), [("beam=0", "beam=0: must be at least 1"), ("stop=now", "stop=now: no ")]
)
def test_a_typed_search_is_checked_before_runs_are_loaded(typed, message):
    settings, _ = read_arguments("evaluate", [typed], usage="")
    with pytest.raises(ConfigurationError, match=message):
        check_settings(settings)


@pytest.mark.parametrize("value", ["weights=[2,0.5]", "candidates=false", "link_threshold=0.1", "weights=null"])
def test_a_value_of_the_right_type_is_accepted(value):
    check_settings(OmegaConf.merge(load_defaults("evaluate"), OmegaConf.from_dotlist([value])))
