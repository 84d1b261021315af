"""The lists of keys in --help."""

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import nmt.config.resolvers  # noqa: F401, because the configuration uses its resolvers
from nmt.config.installation import CONF_DIR
from nmt.config.key_list import describe_settings, read_keys


def test_a_key_has_the_comment_above_it_and_the_one_behind_it():
    text = (
        "# of the file\n\ndefaults: [a]\nfirst: 1 # one\n# more of\nsecond:\n  # inner\n  third: [a] # list\nlast: x\n"
    )
    assert list(read_keys(text)) == [
        ("first", "1", "one"),
        ("second", "", "more of"),
        ("second.third", "[a]", "inner. list"),
        ("last", "x", ""),
    ]


@pytest.mark.parametrize("path", sorted(CONF_DIR.rglob("*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_key_of_a_file_is_read(path):
    text = path.read_text(encoding="utf-8")
    keys = {key for key, _, _ in read_keys(text)}
    assert {str(key) for key in OmegaConf.create(text) or ()} - {"defaults"} <= keys


def test_the_settings_of_the_chosen_parts_are_listed_with_their_comments():
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = compose("config", ["attention=coverage", "trainer=gpu"], return_hydra_config=True)
    settings = {key: value for key, value in OmegaConf.to_container(config).items() if key != "hydra"}
    lines = describe_settings(settings, config.hydra.runtime.choices).split("\n")
    listed = {line.split("=")[0].strip(): line for line in lines if "=" in line}
    assert {"seed", "attention.coverage.size", "trainer.max_epochs", "search.beam"} <= listed.keys()
    assert listed["search.beam"].split() == ["search.beam=5", "1:", "greedy", "search"]
    assert "bf16-mixed: half the bytes" in listed["trainer.precision"]
    assert "tasks" not in listed["trainer.devices"]  # which is a comment of trainer=slurm
    assert any(line.startswith("  finite: ") and "steps with a NaN" in line for line in lines)
