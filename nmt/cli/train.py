"""Train a model: python train.py [GROUP=CHOICE …] [KEY=VALUE …]; python train.py --help says more."""

import sys

import hydra
from omegaconf import DictConfig

import nmt.config.resolvers
import nmt.runs.identity  # noqa: F401
from nmt.cli.exit_status import in_plain_words, leaves_at_once
from nmt.config.overrides import sweep_first
from nmt.config.schema import CONFIGURATIONS
from nmt.runs.stored_overrides import repeating


@hydra.main(version_base="1.3", config_path=str(CONFIGURATIONS), config_name="config")
@leaves_at_once
def train_composed(config: DictConfig) -> float | None:
    from nmt.training.experiment import train

    return train(config)


def main() -> None:
    with in_plain_words():
        sys.argv[1:] = sweep_first(repeating(sys.argv[1:]))
        train_composed()
