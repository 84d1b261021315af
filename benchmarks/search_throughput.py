"""Search speed, ours and the peers', in turn in one run: sentences a second from text to text, words said, memory.

    python train.py data=multi30k …comparison model… hydra.run.dir=RUN     (README.md has the whole line)
    python benchmarks/search_throughput.py --run RUN                          1,000 sentences of Multi30k's test 2016
    python benchmarks/search_throughput.py --run RUN --text FOLDER --joeynmt VENV/bin/python --joeynmt-model MODEL
                                                                              with a model joeynmt_search.py has trained
    python benchmarks/search_throughput.py --run RUN --text FOLDER --opennmt VENV/bin/python --opennmt-model MODEL
                                                                              with a model opennmt_peer.py has trained
    python benchmarks/search_throughput.py --run RUN --search stop=first --search 'beam=5 int8=true'
                                                                              other searches beside the beams

Every system runs in a process of its own, `--rounds` times, one after the other; ratios are taken within a round. Ours
starts from raw text and ends with it, Moses both ways included; the peers' start from tokenised text and end there.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from machine import keep

ROOT = Path(__file__).parent.parent
BATCH = 80
PEERS = {"joeynmt": ("joeynmt_search.py", "measure"), "opennmt": ("opennmt_peer.py", "search")}
TITLES = {"joeynmt": "Joey NMT", "opennmt": "OpenNMT-py"}


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(ours(options)))
        return
    rounds = []
    for number in range(options.rounds):
        rounds.append({"ours": in_own_process(options)})
        for system in asked_peers(options):
            rounds[-1][system] = peer(system, options)
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", file=sys.stderr)
    report(rounds)
    if options.output:
        keep(Path(options.output), options, rounds=rounds)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="a run's folder")
    parser.add_argument("--test", default="test_2016", help="its test set to translate")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5, 12])
    parser.add_argument(
        "--search", action="append", default=[], help="'KEY=VALUE …' of a search to measure beside them"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--joeynmt", help="the Python of an environment with Joey NMT")
    parser.add_argument("--joeynmt-model", help="folder of a model trained by joeynmt_search.py")
    parser.add_argument("--opennmt", help="the Python of an environment with OpenNMT-py")
    parser.add_argument("--opennmt-model", help="folder of a model trained by opennmt_peer.py")
    parser.add_argument("--text", "--joeynmt-data", help="folder of the text the peers read, as theirs was in training")
    parser.add_argument("--output", help="JSON file for every figure")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for system in asked_peers(options):
        if not (options.text and getattr(options, f"{system}_model")):
            parser.error(f"--{system} needs --{system}-model and --text")
    return options


def asked_peers(options: argparse.Namespace) -> list[str]:
    return [system for system in PEERS if getattr(options, system)]


def in_own_process(options: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, "--inside", "--run", options.run, "--test", options.test]
    command += ["--threads", str(options.threads), "--beams", *map(str, options.beams)]
    command += [f"--search={search}" for search in options.search]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def ours(options: argparse.Namespace) -> dict:
    import torch
    from omegaconf import OmegaConf

    from nmt.config.schema import load_defaults
    from nmt.evaluation.bleu import corpus_bleu
    from nmt.runs.trained_model import TrainedRun
    from nmt.translate.loading import build_search, make_translator

    torch.set_num_threads(options.threads)
    run = TrainedRun(options.run)
    _, pairs = run.data([f"data.test={options.test}"]).test_pairs()
    lines = list(pairs)
    references = [run.languages.target.preprocessing(line.target) for line in lines]
    found, rounded = {}, None
    for search in ("beam=1", *(f"beam={beam}" for beam in options.beams), *options.search):
        settings = OmegaConf.merge(load_defaults("translate"), OmegaConf.from_dotlist(search.split()))
        how = build_search(settings)
        if settings.int8 != rounded:
            rounded, translator = settings.int8, make_translator(TrainedRun(options.run), "cpu", int8=settings.int8)
        started = time.perf_counter()
        translations = [best[0] for best in translator((line.source for line in lines), how, batch_size=BATCH)]
        seconds = time.perf_counter() - started
        found[search.removeprefix("beam=")] = {
            "sentences_per_second": len(lines) / seconds,
            "words_per_sentence": sum(len(best.words.split()) for best in translations) / len(lines),
            "bleu": corpus_bleu([best.words for best in translations], references).score,
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }  # the first beam=1 is warm-up: the second takes its place
    return found


def peer(system: str, options: argparse.Namespace) -> dict:
    script, verb = PEERS[system]
    command = [sys.executable, str(Path(__file__).parent / script), verb, "--python", getattr(options, system)]
    command += ["--data", options.text, "--model", getattr(options, f"{system}_model")]
    command += ["--threads", str(options.threads), "--beams", *map(str, options.beams)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def report(rounds: list[dict]) -> None:
    """Medians, and the median of the ratios within each round."""
    peers = [system for system in PEERS if system in rounds[0]]
    columns = ["beam", "ours, sentences/s", "words each", "BLEU", "MiB"]
    for system in peers:
        columns += [f"{TITLES[system]}, sentences/s", "words each", "MiB", f"ours / {TITLES[system]}, words/s"]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for beam in rounds[0]["ours"]:
        mine = [turn["ours"][beam] for turn in rounds]
        row = [beam, _speed(mine), _length(mine), f"{mine[0]['bleu']:.2f}", _memory(mine)]
        for system in peers:
            row += beside([turn[system] for turn in rounds], beam, mine)
        print(f"| {' | '.join(row)} |")


def beside(rounds: list[dict], beam: str, mine: list[dict]) -> list[str]:
    """A peer's columns: its search with as wide a beam."""
    like = re.sub(r"\D.*", "", beam.removeprefix("beam=")) or "5"
    if like not in rounds[0]:
        return [""] * 4
    theirs = [turn[like] for turn in rounds]
    ratio = median(_words(one) / _words(two) for one, two in zip(mine, theirs, strict=True))
    return [_speed(theirs), _length(theirs), _memory(theirs), f"{ratio:.2f}"]


def _speed(figures: list[dict]) -> str:
    return f"{median(one['sentences_per_second'] for one in figures):.0f}"


def _length(figures: list[dict]) -> str:
    return f"{figures[0]['words_per_sentence']:.1f}"


def _memory(figures: list[dict]) -> str:
    return str(max(one["peak_memory_mib"] for one in figures))


def _words(figures: dict) -> float:
    return figures["sentences_per_second"] * figures["words_per_sentence"]


if __name__ == "__main__":
    main()
