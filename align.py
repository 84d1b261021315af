"""Link the words of a data set; see nmt/cli/align.py."""

from nmt.cli.align import main

if __name__ == "__main__":
    main()
