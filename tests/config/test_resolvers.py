"""The resolvers that the configuration files use."""

import re

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

import nmt.config.resolvers
import nmt.runs.identity  # noqa: F401
from nmt.config.installation import CONF_DIR

HYDRA = {"hydra", "now", "oc.env", "oc.decode"}


def test_every_resolver_in_the_configuration_files_is_registered():
    texts = (path.read_text() for path in CONF_DIR.rglob("*.yaml"))
    names = {name for text in texts for name in re.findall(r"\$\{([\w.]+):", text)} - HYDRA
    assert {"twice", "half", "default", "folder_name", "stage", "choices", "run_id"} <= names
    for name in names:
        assert OmegaConf.has_resolver(name)


@pytest.mark.parametrize(
    ("reference", "value"),
    [("${twice:3}", 6), ("${half:7}", 3), ("${default:null,b}", "b"), ("${default:a,b}", "a")],
)
def test_values_are_computed(reference, value):
    assert OmegaConf.create({"key": reference}).key == value


def test_a_new_test_set_needs_no_plus():
    news = ["data.tests.news.source=a", "data.tests.news.target=b"]
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        for plus in ("", "+", "++"):
            tests = compose("config", ["data=multi30k", *(f"{plus}{override}" for override in news)]).data.tests
            assert (tests.news, len(tests)) == ({"source": "a", "target": "b"}, 3)
        with pytest.raises(ConfigCompositionException, match=r"override .data\.test_sets\.news"):
            compose("config", ["data.test_sets.news=a"])


@pytest.mark.parametrize(("value", "folder"), [(None, "data"), ("", "data"), ("/a, {b}", "/a, {b}")])
def test_an_empty_data_folder_is_as_none(value, folder, monkeypatch):
    monkeypatch.delenv("NMT_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("NMT_DATA", value)
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        assert compose("config", ["data=multi30k"]).data.dir == folder
