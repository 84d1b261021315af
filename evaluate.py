"""Score a run: python evaluate.py run=FOLDER [data.test=NAME] [beam=5] [as_json=true]

Several runs are scored as one by 'runs=[FOLDER,FOLDER]'. Other keys, with their defaults, stand in conf/evaluate.yaml.
Writes FOLDER/<test set>/{scores.json,hypotheses.txt,alignments.npz} and prints the scores.
"""

import json
import sys

from nmt.command import in_plain_words, read_arguments


def main() -> None:
    settings, of_data = read_arguments("evaluate", sys.argv[1:], usage=__doc__, takes_data=True)
    from nmt.evaluation.verb import evaluate

    result = evaluate(settings, of_data)
    if settings.as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return
    print(f"{result['test']}, {result['sentences']} sentences, beam {result['search']['beam']}:")
    for name, value in result["scores"].items():
        score, signature = (value["score"], value["signature"]) if isinstance(value, dict) else (value, "")
        print(f"  {name:<17} {score:>8.2f}  {signature}")
    print(f"in {result['run']}/{result['test']}/: scores.json, hypotheses.txt, alignments.npz")


if __name__ == "__main__":
    with in_plain_words():
        main()
