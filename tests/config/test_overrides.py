"""Arguments of train.py before Hydra reads them."""

import pytest

from nmt.config.overrides import prepare_arguments
from nmt.errors import ConfigurationError


def test_the_sweep_flag_moves_to_the_front_and_the_rest_keeps_its_order():
    assert prepare_arguments(["seed=1,2", "-m", "a=b", "--cfg", "job"]) == ["-m", "seed=1,2", "a=b", "--cfg", "job"]


@pytest.mark.parametrize(
    "argument", ["--config-name", "--config-name=mine", "-cn", "hydra.run.dir=", "hydra.sweep.dir="]
)
def test_arguments_that_training_cannot_follow_are_refused(argument):
    with pytest.raises(ConfigurationError, match=rf"^{argument}: .*\. Fix: "):
        prepare_arguments(["seed=1", argument])
