"""Score a run; see nmt/cli/evaluate.py."""

from nmt.cli.evaluate import main

if __name__ == "__main__":
    main()
