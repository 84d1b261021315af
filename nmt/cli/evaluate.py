"""Score a run: python evaluate.py run=FOLDER [data.test=NAME] [beam=5] [unknown=keep|copy|translate] [as_json=true]

Several runs are scored as one by 'runs=[FOLDER,FOLDER]'. Other keys, with their defaults, stand in conf/evaluate.yaml
and conf/search.yaml. Writes FOLDER/<test set>/{scores.json,hypotheses.txt,sentences.jsonl,alignments.npz}, and prints
the scores.

What a run thinks of given translations: 'score=[SOURCE,TARGET]', a line of log-probabilities for each pair;
'rescore=[SOURCE,NBEST]', an n-best list ranked anew: number ||| text ||| score + rescore_weight · mean ||| score |||
mean, which is this run's log-probability per word. Without a run: links=FILE gold=FILE, the error rate of any aligner's
links; hypotheses=FILE reference=FILE, the scores of any system's translations.
"""

import json
import sys

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import in_plain_words
from nmt.errors import ConfigurationError

WITHOUT_TEST_SET = (("score",), ("rescore",), ("links", "gold"), ("hypotheses", "reference"))  # what belongs together


def run() -> None:
    settings, of_data = read_arguments("evaluate", sys.argv[1:], usage=__doc__, takes_data=True)
    given = [key for keys in WITHOUT_TEST_SET for key in keys if settings[key] is not None]
    if given and of_data:
        raise ConfigurationError(f"{of_data[0]}: {given[0]}= scores what it names, and no test set; leave one out")
    if not any(set(given) <= set(keys) for keys in WITHOUT_TEST_SET):
        raise ConfigurationError(f"{'=, '.join(given)}=: each says what is to be scored; leave all but one out")
    if settings.links is not None or settings.gold is not None:
        from nmt.evaluation.attention_alignment import score_links

        show(score_links(settings), settings.as_json)
        return
    if settings.hypotheses is not None or settings.reference is not None:
        from nmt.evaluation.hypothesis_files import score_hypotheses

        show(score_hypotheses(settings), settings.as_json)
        return
    if settings.score is not None or settings.rescore is not None:
        from nmt.evaluation.forced_scoring import score_pairs
        from nmt.evaluation.rescoring import rescore
        from nmt.translate.loading import opened

        _, translator = opened(settings)
        for line in (score_pairs if settings.rescore is None else rescore)(translator, settings):
            print(line)
        return
    from nmt.evaluation.test_set import evaluate

    result = evaluate(settings, of_data)
    if settings.as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return
    print(f"{result['test']}, {result['sentences']} sentences, beam {result['search']['beam']}:")
    show(result["scores"], as_json=False)
    if result["by_frequency"]:
        show_by_frequency(result["by_frequency"])
    print(f"in {result['run']}/{result['test']}/: scores.json, hypotheses.txt, sentences.jsonl, links.txt, …")


def show(scores: dict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, indent=2, ensure_ascii=False))
        return
    for name, value in scores.items():
        score, signature = (value["score"], value["signature"]) if isinstance(value, dict) else (value, "")
        print(f"  {name:<22} {score:>8.2f}  {signature}")


def show_by_frequency(buckets: list[dict]) -> None:
    print(f"  {'words in training':<22} {'in references':>13} {'precision':>10} {'recall':>8} {'F1':>8}")
    for one in buckets:
        rates = f"{one['precision']:>10.2f} {one['recall']:>8.2f} {one['f1']:>8.2f}"
        print(f"  {one['name']:<22} {one['reference_words']:>13} {rates}")


def main() -> None:
    with in_plain_words():
        run()
