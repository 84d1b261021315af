"""Translate text: python translate.py run=FOLDER [beam=5] [nbest=1] [format=json] [alignments=true] < source > target

Several runs with the same vocabularies translate as one: 'runs=[FOLDER,FOLDER]' [average=probabilities|logs]. Other
keys, with their defaults, stand in conf/translate.yaml and conf/search.yaml. Raw text in, written text out, line for
line. A page in the browser, runs side by side: 'runs=[FOLDER,FOLDER]' serve=true [port=8000].
"""

import sys

from nmt.command import in_plain_words, read_arguments


def main() -> None:
    settings, _ = read_arguments("translate", sys.argv[1:], usage=__doc__)
    if settings.serve:
        from nmt.serve.app import serve

        serve(settings)
        return
    from nmt.search.verb import translate

    translate(settings, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    with in_plain_words():
        main()
