"""Compare runs: python compare.py RUN_OR_SWEEP … [output=compare.html] [test=NAME] [baseline=RUN] [resamples=1000]

Folders of runs, of sweeps, or of many of either. Writes one page that opens from the disk, and its tables beside it as
Markdown and JSON: leaderboard, learning curves, settings, BLEU by length, every sentence with its alignments. What
cannot be compared is listed there with the reason. Keys and defaults stand in conf/compare.yaml.
"""

import sys

from nmt.command import in_plain_words, read_arguments


def main() -> None:
    from nmt.report.compare import compare, folders_and_keys

    folders, keys = folders_and_keys(sys.argv[1:])
    settings, _ = read_arguments("compare", keys, usage=__doc__)
    print(compare(folders, settings))


if __name__ == "__main__":
    with in_plain_words():
        main()
