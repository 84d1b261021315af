"""Train a model; see nmt/cli/train.py."""

from nmt.cli.train import main

if __name__ == "__main__":
    main()
