"""Train a model: python train.py [GROUP=CHOICE …] [KEY=VALUE …]; python train.py --help says more."""

import sys

import hydra
from omegaconf import DictConfig

from nmt.command import in_plain_words, leaves_at_once, repeating, sweep_first


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
@leaves_at_once
def main(config: DictConfig) -> float | None:
    from nmt.training.experiment import train

    return train(config)


if __name__ == "__main__":
    with in_plain_words():
        sys.argv[1:] = sweep_first(repeating(sys.argv[1:]))
        main()
