"""Evaluate runs, score files, or share the model of a run: one of seven tasks.

    python evaluate.py RUN … [data.test=NAME] [KEY=VALUE …]
    python evaluate.py RUN 'score=[SOURCE,TARGET]'
    python evaluate.py RUN 'rescore=[SOURCE,NBEST]' [rescore_weight=1]
    python evaluate.py links=FILE gold=FILE
    python evaluate.py hypotheses=FILE reference=FILE
    python evaluate.py RUN export=NEW_FOLDER [push=hf:OWNER/NAME]
    python evaluate.py RUN … comet=PROGRAM

RUN is the folder of a run, or one of its checkpoints: multirun/first/* names all runs of a sweep. run=RUN means the
same, and 'runs=[RUN,RUN]' is an ensemble.

1. Translate a test set with each run in turn, score the translations, and write scores.json, hypotheses.txt,
   sentences.jsonl, links.txt and alignments.npz to RUN/<test set>/. With settings that are not the run's own, they
   go to RUN/<test set>,KEY=VALUE,…/.
2. Print the log-probability of each given translation, and its mean per word.
3. Rank an n-best list, best first: number ||| text ||| together ||| score ||| mean. The mean is the run's
   log-probability per word, and together = score + rescore_weight · mean.
4. Print the alignment error rate of any aligner's links.
5. Print the scores of any system's translations.
6. Write the model to a new folder with a model card, which holds the scores of task 1. push= uploads it to the
   Hugging Face hub. NEW_FOLDER and hf:OWNER/NAME are then runs too.
7. Add COMET to all scores.json that task 1 wrote for RUN, with the program comet-score, which is installed by
   python -m venv comet && comet/bin/pip install unbabel-comet

The keys most often used:

- data.test=NAME: a test set of the run; data.tests.NAME.source=FILE data.tests.NAME.target=FILE adds one.
- beam=10: the width of the beam search; 1 is greedy search. Search keys that are not given are those of the run.
- unknown=keep|copy|translate: what to do with unknown words.
- output=FOLDER: write the results elsewhere.
- threads=N device=cpu|cuda: where the model runs.
- traces=true: also keep what the model's parts show; mechanism=true: also compute figures from it.
- as_json=true: print JSON and nothing else; of several runs, an object a line.
"""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from nmt.cli.arguments import read_arguments
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.cli.run_arguments import name_runs, split_runs
from nmt.config.explain import SHOW_TRACEBACK, explain
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, UserError, make_printable
from nmt.system.files import dump_json
from nmt.system.garbage_collection import pause_garbage_collection

if TYPE_CHECKING:
    from nmt.evaluation.run_evaluation import Evaluation

# Modules of nmt.evaluation are imported by the tasks, because torch and sacrebleu take seconds to import.


@exit_with_one_line_errors
def main() -> None:
    """Score what the command line names."""
    runs, arguments = split_runs("evaluate", sys.argv[1:])
    settings, data_overrides = read_arguments("evaluate", arguments, usage=__doc__, takes_data=True)
    keys = choose_task(settings, data_overrides)
    if len(runs) > 1:
        evaluate_in_turn(runs, settings, data_overrides, keys)
        return
    name_runs(settings, runs)
    TASKS[keys](settings, data_overrides)


def choose_task(settings: DictConfig, data_overrides: list[str]) -> tuple[str, ...]:
    """Return the keys of `TASKS` for the given settings."""
    given = [key for keys in TASKS for key in keys if settings[key] is not None]
    if given and data_overrides:
        raise ConfigurationError(f"{data_overrides[0]}: has no effect with {given[0]}=. Fix: leave out one of them")
    for keys in TASKS:
        if set(given) <= set(keys):
            return keys
    raise ConfigurationError(f"{'=, '.join(given)}=: belong to different tasks. Fix: leave out all but one")


def evaluate_in_turn(runs: list[str], settings: DictConfig, data_overrides: list[str], keys: tuple[str, ...]) -> None:
    """Evaluate runs one after another; an error of one does not stop the others."""
    with pause_garbage_collection():
        from nmt.evaluation.comet import make_comet_command
        from nmt.translate.loading import check_settings

    tasks = {(): partial(evaluate_test_set, indent=None), COMET: print_comet}
    if keys not in tasks or settings.output is not None:
        given = next(key for key in ("output", *keys) if settings[key] is not None)
        raise ConfigurationError(f"{given}={settings[given]}: is of one run, and {len(runs)} are given. Fix: name one")
    check = make_comet_command if keys else check_settings
    check(settings)
    failures = 0
    for run in runs:
        one = settings.copy()
        name_runs(one, [run])
        try:
            tasks[keys](one, data_overrides)
        except Exception as error:
            if SHOW_TRACEBACK or isinstance(error, BrokenPipeError):
                raise
            failures += 1
            print(make_printable(f"error: {explain(error)}"), file=sys.stderr)
    if failures:
        raise UserError(f"{failures} of {len(runs)} runs failed; the lines above name the reasons")


def evaluate_test_set(settings: DictConfig, data_overrides: list[str], indent: int | None = 2) -> None:
    """Evaluate a run and print its scores; with as_json=true as JSON, indented or on one line."""
    with pause_garbage_collection():
        from nmt.evaluation.run_evaluation import evaluate

    evaluation = evaluate(settings, data_overrides, heatmaps=0 if settings.as_json else settings.show)
    scores = evaluation.scores
    if settings.as_json:
        print(dump_json(scores, indent=indent))
        return
    if settings.show:
        print_sentences(evaluation, settings.show)
    default = load_defaults("search")
    search = [f"{key}={value}" for key, value in scores["search"].items() if key == "beam" or value != default[key]]
    print(f"{scores['test']}, {scores['sentences']} sentences, {' '.join(search)}:")
    print_scores(scores["scores"], as_json=False)
    if scores["by_frequency"]:
        print_frequency_table(scores["by_frequency"])
    print(f"in {evaluation.folder}/: scores.json, hypotheses.txt, sentences.jsonl, links.txt, …")


def print_pair_scores(settings: DictConfig, _: list[str]) -> None:
    """Print the log-probabilities of given translations."""
    with pause_garbage_collection():
        from nmt.evaluation.forced_scoring import score_pairs
        from nmt.translate.loading import build_search, load_translator

    runs, translator = load_translator(settings)
    for line in score_pairs(translator, settings, build_search(settings, runs).aligned_word):
        print(line)


def print_rescored(settings: DictConfig, _: list[str]) -> None:
    """Print an n-best list ranked with the log-probabilities of a run."""
    with pause_garbage_collection():
        from nmt.evaluation.rescoring import rescore
        from nmt.translate.loading import load_translator

    for line in rescore(load_translator(settings)[1], settings):
        print(line)


def share_model(settings: DictConfig, _: list[str]) -> None:
    """Write a run's model to a folder, and upload it."""
    with pause_garbage_collection():
        from nmt.share.export import export_model, push_model

    for key in ("export", "push"):
        if settings[key] is not None and settings.run is None:
            raise ConfigurationError(f"{key}={settings[key]}: which model? Fix: run=FOLDER, one run at a time")
    run = settings.run
    if settings.export is not None:
        export_model(run, Path(settings.export), settings.push, settings.user_dir)
        print(f"{settings.export}: the model; its card README.md lacks the licence, which is yours to choose")
        run = settings.export
    if settings.push is not None:
        address = push_model(run, settings.push, settings.user_dir)
        print(f"uploaded: {address} (a new model is private until you change it there)")


def print_comet(settings: DictConfig, _: list[str]) -> None:
    """Add COMET to the scores of a run, and print it for each test set; as_json=true prints an object a line."""
    with pause_garbage_collection():
        from nmt.evaluation.comet import add_comet

    for folder, comet in add_comet(settings):
        if settings.as_json:
            print(dump_json({"folder": str(folder), "comet": comet._asdict()}))
        else:
            print(make_printable(f"{folder}:"))
            print_scores({"comet": comet._asdict()}, as_json=False)


def print_link_scores(settings: DictConfig, _: list[str]) -> None:
    """Print the scores of an aligner's links."""
    from nmt.evaluation.link_files import score_links

    print_scores(score_links(settings), settings.as_json)


def print_hypothesis_scores(settings: DictConfig, _: list[str]) -> None:
    """Print the scores of a system's translations."""
    from nmt.evaluation.hypothesis_files import score_hypotheses

    print_scores(score_hypotheses(settings), settings.as_json)


COMET = ("comet", "comet_model")
TASKS = {  # keys that start a task; without any of them a test set is evaluated
    (): evaluate_test_set,
    ("score",): print_pair_scores,
    ("rescore",): print_rescored,
    ("links", "gold"): print_link_scores,
    ("hypotheses", "reference"): print_hypothesis_scores,
    ("export", "push"): share_model,
    COMET: print_comet,
}


def print_scores(scores: dict[str, Any], as_json: bool) -> None:
    """Print a score per line, with its signature if it has one; or JSON."""
    if as_json:
        print(dump_json(scores, indent=2))
        return
    for name, value in scores.items():
        score, signature = (value["score"], value["signature"]) if isinstance(value, dict) else (value, "")
        print(f"  {name:<22} {score:>8.2f}  {signature}")


def print_frequency_table(buckets: list[dict[str, Any]]) -> None:
    """Print precision, recall and F1 of words by their frequency in the training text."""
    print(f"  {'words in training':<22} {'in references':>13} {'precision':>10} {'recall':>8} {'F1':>8}")
    for bucket in buckets:
        rates = f"{bucket['precision']:>10.2f} {bucket['recall']:>8.2f} {bucket['f1']:>8.2f}"
        print(f"  {bucket['name']:<22} {bucket['reference_words']:>13} {rates}")


def print_sentences(evaluation: "Evaluation", count: int) -> None:
    """Print the first sentences with their links, and name the drawings of their alignments."""
    from nmt.evaluation.result_files import name_heatmap
    from nmt.translate.alignment import link_words

    pairs, translations = evaluation.test.pairs[:count], evaluation.translated.translations
    for number, (pair, translation) in enumerate(zip(pairs, translations, strict=False)):
        links = " ".join(
            f"{translation.target[target]}←{translation.source[source]}"
            for source, target in link_words(translation.word_alignment())
        )
        print(f"\nsource       {pair.source}\nreference    {pair.target}\ntranslation  {translation.text}")
        print(f"alignment    {links}")
        if translation.alignment.size:
            print(f"heatmap      {evaluation.folder / name_heatmap(number)}")
    print()
