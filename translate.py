"""Translate text: python translate.py run=FOLDER [beam=5] [nbest=1] [alignments=true] < source > target

Several runs with the same vocabularies translate as one: 'runs=[FOLDER,FOLDER]' [average=probabilities|logs]. Other
keys, with their defaults, stand in conf/translate.yaml. Raw text in, written text out, line for line.
"""

import sys

from nmt.command import in_plain_words, read_arguments


def main() -> None:
    settings, _ = read_arguments("translate", sys.argv[1:], usage=__doc__)
    from nmt.search.verb import translate

    for line in translate(settings, sys.stdin.buffer):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with in_plain_words():
        main()
