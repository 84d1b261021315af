"""The resolvers that the configuration files use."""

import re

import pytest
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
