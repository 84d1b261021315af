"""Translate text; see nmt/cli/translate.py."""

from nmt.cli.translate import main

if __name__ == "__main__":
    main()
