"""Contract tests: OmegaConf makes its loader of YAML in the function that `omegaconf_internals` replaces."""

import importlib.util

import omegaconf._utils
import pytest
import yaml
from omegaconf import OmegaConf

import nmt.config.resolvers  # noqa: F401, because it replaces the loader
from nmt.config.installation import CONF_DIR

VALUES = "a: 1e-3\nb: 010\nc: 2026-11-28\nd: on\ne: [1.0, .inf, null, '${a}', !!python/object/apply:pathlib.Path [x]]\n"


@pytest.fixture(scope="module")
def in_python():
    """Return the loader of a second copy of OmegaConf's module, in which nothing is replaced."""
    spec = importlib.util.find_spec("omegaconf._utils")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_yaml_loader()


def test_files_are_read_in_c_and_other_users_of_pyyaml_keep_their_loader(in_python):
    assert issubclass(omegaconf._utils.get_yaml_loader(), yaml.CSafeLoader)
    assert issubclass(in_python, yaml.SafeLoader)
    assert not issubclass(yaml.SafeLoader, yaml.CSafeLoader)


def test_omegaconf_asks_for_the_loader_at_each_file(monkeypatch, tmp_path):
    (tmp_path / "a.yaml").write_text("a: 1")
    monkeypatch.setattr("omegaconf._utils.get_yaml_loader", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        OmegaConf.load(tmp_path / "a.yaml")


def test_all_files_of_conf_and_unusual_values_are_read_as_in_python(in_python):
    texts = [file.read_text(encoding="utf-8") for file in CONF_DIR.rglob("*.yaml")]
    for text in [*texts, VALUES]:
        in_c = yaml.load(text, Loader=omegaconf._utils.get_yaml_loader())
        assert repr(in_c) == repr(yaml.load(text, Loader=in_python))  # because 1 == 1.0 == True
    assert len(texts) > 100
    assert in_c["a"] == 0.001


def test_a_key_given_twice_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("a: 1\na: 2\n")
    with pytest.raises(yaml.constructor.ConstructorError, match="found duplicate key a") as refused:
        OmegaConf.load(tmp_path / "a.yaml")
    assert (refused.value.problem_mark.name, refused.value.problem_mark.line) == (str(tmp_path / "a.yaml"), 1)
