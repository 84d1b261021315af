"""Compare runs; see nmt/cli/compare.py."""

from nmt.cli.compare import main

if __name__ == "__main__":
    main()
