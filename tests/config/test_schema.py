"""Settings of configuration files: keys that nothing reads, and values of another kind than the default."""

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf, open_dict

from nmt.config.installation import CONF_DIR
from nmt.config.schema import CLOSED_SECTIONS, check_composed_config, check_section, load_defaults, load_known_settings
from nmt.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _with_hydra():
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        yield


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "search.bean",
            3,
            r"search.bean: no such key, nothing reads it \(did you mean beam\?\). Fix: choose beam, nbest",
        ),
        ("search.beam", "ten", "search.beam=ten: must be a number; the default is 5"),
        ("search.beam", 2.5, "search.beam=2.5: must be a whole number; the default is 5"),
        ("search.sample", 1, "search.sample=1: must be true or false; the default is false"),
        ("search", 10, r"search=10: is a section with settings \(beam, nbest, .*seed\). Fix: search.NAME=VALUE"),
        ("search", None, "search=null: must have settings"),
        ("loss.label_smoothing", "some", "loss.label_smoothing=some: must be a number; the default is 0.0"),
    ],
)
def test_a_wrong_setting_of_a_file_is_refused(key, value, message):
    config = compose("config")
    with open_dict(config):
        OmegaConf.update(config, key, value, merge=False)
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        check_composed_config(config)


def test_a_key_that_another_value_refers_to_is_accepted():
    config = compose("config")
    with open_dict(config):
        config.search.wide = 20
        config.search.beam = "${search.wide}"
    check_composed_config(config)


def test_every_setting_of_a_stored_search_is_checked():
    check_section("search", {"beam": 10, "length_penalty": 0}, load_defaults("search"))
    with pytest.raises(ConfigurationError, match=r"search.length_penalty=none: must be a number"):
        check_section("search", {"beam": 10, "length_penalty": "none"}, load_defaults("search"))


@pytest.mark.parametrize("command", ["align", "compare", "evaluate", "search", "translate"])
def test_defaults_are_what_hydra_composes(command):
    assert list(load_defaults(command).items()) == list(compose(command).items())


def test_the_known_settings_of_closed_sections_are_those_that_hydra_composes():
    known, composed = load_known_settings(), compose("config")
    assert known.keys() == composed.keys()
    assert {name: known[name] for name in CLOSED_SECTIONS} == {name: composed[name] for name in CLOSED_SECTIONS}


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("attnetion", r" \(did you mean attention\?\)"),
        ("experiment", ""),  # the content of a file in conf/experiment without its package line
        ("debug", ""),
        ("default", ""),
    ],
)
def test_another_key_at_the_top_is_refused(key, hint):
    config = compose("config")
    with open_dict(config):
        config[key] = {"window": 3}
    with pytest.raises(ConfigurationError, match=rf"^{key}: no such key, nothing reads it{hint}$"):
        check_composed_config(config)
