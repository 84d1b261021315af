"""Arguments of train.py before Hydra reads them."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from nmt.config.overrides import expand_home, prepare_arguments, read_dotlist
from nmt.errors import ConfigurationError


def test_the_sweep_flag_moves_to_the_front_and_the_rest_keeps_its_order():
    assert prepare_arguments(["seed=1,2", "-m", "a=b", "--cfg", "job"]) == ["-m", "seed=1,2", "a=b", "--cfg", "job"]


def test_the_device_of_all_commands_is_one_of_the_trainer():
    assert prepare_arguments(["device=cpu", "a=b"]) == ["trainer.accelerator=cpu", "a=b"]
    assert prepare_arguments(["device=cuda:1"]) == ["trainer.accelerator=cuda", "trainer.devices=[1]"]
    for wrong in ("device=gpu", "device=cpu:1", "device=cuda:", "device=cpu,cuda", "device="):
        with pytest.raises(
            ConfigurationError, match=rf"^{wrong}: no such device. Fix: device=auto, cpu, cuda or cuda:1"
        ):
            prepare_arguments([wrong])


def test_a_tilde_is_the_home_folder_at_the_beginning_of_a_path_alone(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_home("~/a") == "/home/me/a"
    assert expand_home("runs=[~/a, '~/b']") == "runs=[/home/me/a, '/home/me/b']"
    assert expand_home("data.train={source: ~/a}") == "data.train={source: /home/me/a}"
    for other in ("~attention/window", "input=a~/b", "~"):
        assert expand_home(other) == other


@pytest.mark.parametrize(
    "argument", ["--config-name", "--config-name=mine", "-cn", "hydra.run.dir=", "hydra.sweep.dir="]
)
def test_arguments_that_training_cannot_follow_are_refused(argument):
    with pytest.raises(ConfigurationError, match=rf"^{argument}: .*\. Fix: "):
        prepare_arguments(["seed=1", argument])


@pytest.mark.parametrize("path", ["/x/run #2", "007", "1e3", "yes", "a: b", "it's", "x=1,y=2", "[x]", "{x"])
def test_a_path_is_taken_as_typed(path):
    assert read_dotlist([f"output={path}", f"run='{path.replace(chr(39), 2 * chr(39))}'"]) == {
        "output": path,
        "run": path,
    }


@pytest.mark.parametrize("path", ["1e3", "007", "1.50", "1_000", "-inf", "NaN", "True"])
@pytest.mark.parametrize(
    "key", ["hydra.run.dir", "sweep", "init_from", "vectors.source", "data.vocabulary.run", "+data.tests.news.source"]
)
def test_a_path_that_looks_like_a_number_is_quoted_for_hydra(key, path):
    (argument,) = prepare_arguments([f"{key}={path}"])
    assert OverridesParser.create().parse_override(argument).value() == path
    assert prepare_arguments([f"seed={path}"]) == [f"seed={path}"]


@pytest.mark.parametrize("key", ["data.dir", "data.test", "data.tests.news.source", "data.tests.news.alignments"])
def test_a_path_of_the_data_is_taken_as_typed(key):
    assert OmegaConf.select(read_dotlist([f"{key}=/x/007 #2"]), key) == "/x/007 #2"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("[a #1,'b,c', 007 ,\"it's\"]", ["a #1", "b,c", "007", "it's"]),
        ("['a','b',]", ["a", "b"]),
        ("[]", []),
        ("a,b", "a,b"),
        ("null", None),
    ],
)
def test_a_list_of_paths_has_commas_between_them(text, paths):
    assert read_dotlist([f"runs={text}"])["runs"] == paths
    assert read_dotlist([f"data.tests.news.references={text}"])["data"]["tests"]["news"]["references"] == paths


def test_other_values_are_in_hydras_grammar():
    of_data = ["data.source={language: de}", "data.tests.a.alignments_base=0"]
    given = read_dotlist(["beam=3", "weights=[2,1]", "alignments=true", *of_data])
    data = {"source": {"language": "de"}, "tests": {"a": {"alignments_base": 0}}}
    assert given == {"beam": 3, "weights": [2, 1], "alignments": True, "data": data}
    assert read_dotlist(["prefix='a, b=c'", "threads=null"]) == {"prefix": "a, b=c", "threads": None}
    with pytest.raises(
        ConfigurationError, match=r"^weights=2,1: several values. Fix: give one, or a list: weights=\[2,1\]$"
    ):
        read_dotlist(["weights=2,1"])
    assert read_dotlist(["host=", "comet=/home/müller/a,b (c)"]) == {"host": None, "comet": "/home/müller/a,b (c)"}
    with pytest.raises(OverrideParseException, match="no viable alternative at input"):
        read_dotlist(["weights=[2,1"])
