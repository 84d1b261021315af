"""Search speed, ours and Joey NMT's, in turn in one run: sentences a second from text to text, words said, memory.

    python train.py data=multi30k …comparison model… hydra.run.dir=RUN     (README.md has the whole line)
    python benchmarks/search_throughput.py --run RUN                          1,000 sentences of Multi30k's test 2016
    python benchmarks/search_throughput.py --run RUN --joeynmt VENV/bin/python --joeynmt-model MODEL
                                                                              with a model joeynmt_search.py has trained
    python benchmarks/search_throughput.py --run RUN --search stop=first --search 'beam=5 int8=true'
                                                                              other searches beside the beams

Every system runs in a process of its own, `--rounds` times, one after the other; ratios are taken within a round. Ours
starts from raw text and ends with it, Moses both ways included; Joey's starts from tokenised text and ends there.
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

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
BATCH = 80


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(ours(options)))
        return
    rounds = []
    for number in range(options.rounds):
        rounds.append({"ours": in_own_process(options)})
        if options.joeynmt:
            rounds[-1]["joeynmt"] = joeynmt(options)
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", file=sys.stderr)
    report(rounds)
    if options.output:
        Path(options.output).write_text(json.dumps(rounds, indent=2) + "\n", encoding="utf-8")


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
    parser.add_argument("--joeynmt-data", help="folder of the text it was trained on")
    parser.add_argument("--output", help="JSON file for every figure")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(options: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, "--inside", "--run", options.run, "--test", options.test]
    command += ["--threads", str(options.threads), "--beams", *map(str, options.beams)]
    command += [f"--search={search}" for search in options.search]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def ours(options: argparse.Namespace) -> dict:
    import torch
    from omegaconf import OmegaConf

    from nmt.command import defaults_of
    from nmt.evaluation.bleu import corpus_bleu
    from nmt.run import Run
    from nmt.search.verb import search_of, translator_of

    torch.set_num_threads(options.threads)
    run = Run(options.run)
    _, pairs = run.data([f"data.test={options.test}"]).test_pairs()
    lines = list(pairs)
    references = [run.languages.target.preprocessing(line.target) for line in lines]
    found, rounded = {}, None
    for search in ("beam=1", *(f"beam={beam}" for beam in options.beams), *options.search):
        settings = OmegaConf.merge(defaults_of("translate"), OmegaConf.from_dotlist(search.split()))
        how = search_of(settings)
        if settings.int8 != rounded:
            rounded, translator = settings.int8, translator_of(Run(options.run), "cpu", int8=settings.int8)
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


def joeynmt(options: argparse.Namespace) -> dict:
    command = [sys.executable, str(Path(__file__).parent / "joeynmt_search.py"), "measure", "--python", options.joeynmt]
    command += ["--data", options.joeynmt_data, "--model", options.joeynmt_model, "--threads", str(options.threads)]
    command += ["--beams", *map(str, options.beams)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def report(rounds: list[dict]) -> None:
    """Medians, and the median of the ratios within each round."""
    print("| beam | ours, sentences/s | words each | BLEU | MiB | Joey NMT | words each | MiB | ours / Joey, words/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for beam in rounds[0]["ours"]:
        mine = [turn["ours"][beam] for turn in rounds]
        like = re.sub(r"\D.*", "", beam.removeprefix("beam=")) or "5"  # the peer's search with as wide a beam
        theirs = [turn["joeynmt"][like] for turn in rounds if like in turn.get("joeynmt", {})]
        row = [f"{median(one['sentences_per_second'] for one in mine):.0f}", f"{mine[0]['words_per_sentence']:.1f}"]
        row += [f"{mine[0]['bleu']:.2f}", f"{max(one['peak_memory_mib'] for one in mine)}"]
        if theirs:
            ratios = [_words(one) / _words(two) for one, two in zip(mine, theirs, strict=True)]
            row += [f"{median(one['sentences_per_second'] for one in theirs):.0f}"]
            row += [f"{theirs[0]['words_per_sentence']:.1f}", f"{max(one['peak_memory_mib'] for one in theirs)}"]
            row += [f"{median(ratios):.2f}"]
        print(f"| {beam} | {' | '.join(row)} |" + " |" * (4 if not theirs else 0))


def _words(figures: dict) -> float:
    return figures["sentences_per_second"] * figures["words_per_sentence"]


if __name__ == "__main__":
    main()
