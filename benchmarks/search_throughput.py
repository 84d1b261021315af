"""Measure our search and that of the peers in turn: sentences per second, words per sentence, BLEU and memory.

    python train.py data=multi30k …comparison model… hydra.run.dir=RUN        README.md has the complete command
    python benchmarks/search_throughput.py --run RUN                          1,000 sentences of Multi30k's test 2016
    python benchmarks/search_throughput.py --run RUN --text FOLDER --joeynmt VENV/bin/python --joeynmt-model MODEL
                                                                              with a model of joeynmt_search.py
    python benchmarks/search_throughput.py --run RUN --text FOLDER --opennmt VENV/bin/python --opennmt-model MODEL
                                                                              with a model of opennmt_peer.py
    python benchmarks/search_throughput.py --run RUN --search stop=first --search 'beam=5 int8=true'
                                                                              searches with other settings too

In each of `--rounds` rounds the systems run one after the other, each in a process of its own. Ratios compare systems
of the same round. Our time covers raw text to raw text, with Moses in both directions. The time of the peers covers
tokenized text to tokenized text. With one thread all times are those of the process on the processor, so that other
programs lengthen them little.
"""

import argparse
import json
import re
import resource
import sys
import time
from pathlib import Path
from statistics import median

from machine import read_figures, run_rounds
from peers import choose_clock

ROOT = Path(__file__).parent.parent
BATCH = 80
PEERS = {"joeynmt": ("joeynmt_search.py", "measure"), "opennmt": ("opennmt_peer.py", "search")}
TITLES = {"joeynmt": "Joey NMT", "opennmt": "OpenNMT-py"}


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(measure_ours(options)))
        return
    run_rounds(options, lambda: measure_all(options), print_table)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="folder of a run")
    parser.add_argument("--test", default="test_2016", help="test set of the run to translate")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5, 12])
    parser.add_argument(
        "--search", action="append", default=[], help="'KEY=VALUE …': settings of a search to measure too"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of our search")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--joeynmt", help="Python of an environment with Joey NMT")
    parser.add_argument("--joeynmt-model", help="folder of a model trained by joeynmt_search.py")
    parser.add_argument("--opennmt", help="Python of an environment with OpenNMT-py")
    parser.add_argument("--opennmt-model", help="folder of a model trained by opennmt_peer.py")
    parser.add_argument(
        "--text", "--joeynmt-data", help="folder of the test text for the peers, preprocessed as in their training"
    )
    parser.add_argument("--output", help="JSON file for all figures")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for system in chosen_peers(options):
        if not (options.text and getattr(options, f"{system}_model")):
            parser.error(f"--{system}: --{system}-model or --text is missing. Fix: give both")
    return options


def chosen_peers(options: argparse.Namespace) -> list[str]:
    """Return the peers that the options name."""
    return [system for system in PEERS if getattr(options, system)]


def measure_all(options: argparse.Namespace) -> dict:
    """Measure our search and that of each peer, one after the other."""
    return {"ours": run_ours(options)} | {system: run_peer(system, options) for system in chosen_peers(options)}


def run_ours(options: argparse.Namespace) -> dict:
    """Measure our search in a new process."""
    command = [sys.executable, __file__, "--inside", "--run", options.run, "--test", options.test]
    command += ["--threads", str(options.threads), "--beams", *map(str, options.beams)]
    command += ["--device", options.device, *(f"--search={search}" for search in options.search)]
    return read_figures(command)


def measure_ours(options: argparse.Namespace) -> dict:
    """Return the figures of each search.

    The first search, with beam 1, is warm-up. A later one with the same settings replaces it.
    """
    import torch
    from omegaconf import OmegaConf

    from nmt.config.schema import load_defaults
    from nmt.evaluation.bleu import corpus_bleu
    from nmt.runs.trained_model import TrainedRun
    from nmt.translate.loading import build_search, make_translator, set_up_search

    torch.set_num_threads(options.threads)
    run = TrainedRun(options.run)
    _, pairs = run.data([f"data.test={options.test}"]).test_pairs()
    lines = list(pairs)
    references = [run.languages.target.preprocessing(line.target) for line in lines]
    figures, built = {}, None
    clock = choose_clock(options.threads) if options.device == "cpu" else time.perf_counter
    for search in ("beam=1", *(f"beam={beam}" for beam in options.beams), *options.search):
        given = OmegaConf.from_dotlist([*search.split(), f"device={options.device}"])
        settings = OmegaConf.merge(load_defaults("translate"), given)
        search_settings = build_search(settings)
        how = {"int8": settings.int8, "graphs": settings.graphs}
        if how != built:
            built, translator = how, make_translator(TrainedRun(options.run), options.device, **how)
        set_up_search(settings, run.model)
        started = clock()
        sources = (line.source for line in lines)
        translations = [best[0] for best in translator(sources, search_settings, batch_size=BATCH)]
        seconds = clock() - started
        figures[search.removeprefix("beam=")] = {
            "sentences_per_second": len(lines) / seconds,
            "words_per_sentence": sum(len(best.words.split()) for best in translations) / len(lines),
            "bleu": corpus_bleu([best.words for best in translations], references).score,
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
    return figures


def run_peer(system: str, options: argparse.Namespace) -> dict:
    """Measure the search of a peer in a new process."""
    script, verb = PEERS[system]
    command = [sys.executable, str(Path(__file__).parent / script), verb, "--python", getattr(options, system)]
    command += ["--data", options.text, "--model", getattr(options, f"{system}_model")]
    command += ["--threads", str(options.threads), "--beams", *map(str, options.beams)]
    return read_figures(command)


def print_table(rounds: list[dict]) -> None:
    """Print medians over the rounds, of the ratios too."""
    peers = [system for system in PEERS if system in rounds[0]]
    columns = ["beam", "ours, sentences/s", "words each", "BLEU", "MiB"]
    for system in peers:
        columns += [f"{TITLES[system]}, sentences/s", "words each", "MiB", f"ours / {TITLES[system]}, words/s"]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for beam in rounds[0]["ours"]:
        ours = [turn["ours"][beam] for turn in rounds]
        row = [beam, _speed(ours), _length(ours), f"{ours[0]['bleu']:.2f}", _memory(ours)]
        for system in peers:
            row += peer_columns([turn[system] for turn in rounds], beam, ours)
        print(f"| {' | '.join(row)} |")


def peer_columns(rounds: list[dict], beam: str, ours: list[dict]) -> list[str]:
    """Return the columns of a peer: its search with the same beam."""
    width = re.sub(r"\D.*", "", beam.removeprefix("beam=")) or "5"
    if width not in rounds[0]:
        return [""] * 4
    theirs = [turn[width] for turn in rounds]
    ratio = median(_words(our) / _words(their) for our, their in zip(ours, theirs, strict=True))
    return [_speed(theirs), _length(theirs), _memory(theirs), f"{ratio:.2f}"]


def _speed(figures: list[dict]) -> str:
    return f"{median(turn['sentences_per_second'] for turn in figures):.0f}"


def _length(figures: list[dict]) -> str:
    return f"{figures[0]['words_per_sentence']:.1f}"


def _memory(figures: list[dict]) -> str:
    return str(max(turn["peak_memory_mib"] for turn in figures))


def _words(figures: dict) -> float:
    return figures["sentences_per_second"] * figures["words_per_sentence"]


if __name__ == "__main__":
    main()
