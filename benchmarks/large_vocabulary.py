"""Measure the cost of a large target vocabulary, with and without candidate lists.

    python benchmarks/large_vocabulary.py [--size small] [--steps 12] [--rounds 3]

The figures are seconds per training step, sentences per second in a search with beam 5, and memory. They are measured
at 30,000, 100,000 and 300,000 target words in turn, each in a process of its own.

The text is random. Its words follow Zipf's law, and its sentences are as long as image captions. Each source word has
ten random translations, from which the target words of a sentence are drawn. The source always has 30,000 words. The
optimizer is sparse_adam with lists, and adam without.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from statistics import median

from machine import read_figures, write_results

SOURCE_WORDS, SENTENCES, LENGTHS, BATCH, FREQUENT = 30_000, 2000, (6, 20), 80, 2000


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(measure(options, options.words[0], options.inside == "lists")))
        return
    rounds = []
    for number in range(options.rounds):
        for words in options.words:
            for kind in ("whole", "lists"):
                command = [sys.executable, __file__, "--inside", kind, "--words", str(words), "--size", options.size]
                command += ["--steps", str(options.steps), "--threads", str(options.threads)]
                rounds.append({"round": number, "words": words, "kind": kind} | read_figures(command))
                print(json.dumps(rounds[-1]), file=sys.stderr)
    print_table(rounds, options.words)
    if options.output:
        write_results(Path(options.output), options, rounds=rounds)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[30_000, 100_000, 300_000])
    parser.add_argument("--size", default="small")
    parser.add_argument("--steps", type=int, default=12, help="training steps; the first third is warm-up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", help="JSON file for all figures")
    parser.add_argument("--inside", choices=["whole", "lists"], help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(options: argparse.Namespace, words: int, lists: bool) -> dict:
    """Return the figures of a target vocabulary of `words` words."""
    import hydra
    import torch

    import nmt.config.resolvers  # noqa: F401, because the configuration uses its resolvers
    from nmt.config.installation import CONF_DIR
    from nmt.data.batches import BatchLoader, BatchPlan
    from nmt.runs.trained_model import build_model
    from nmt.search.beam import beam_search
    from nmt.search.settings import Search
    from nmt.training.clipping import clip_norm

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    text, candidates = random_text(words)
    candidates = candidates if lists else None
    with hydra.initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        overrides = [f"size={options.size}", *(["optimizer=sparse_adam"] if lists else [])]
        config = hydra.compose("config", overrides=overrides)
    config.model.source_vocabulary_size, config.model.target_vocabulary_size = SOURCE_WORDS, words
    model = build_model(config).train()
    optimizer = hydra.utils.instantiate(config.optimizer)(model.parameters())
    plan = BatchPlan(unit="sentences", size=BATCH, pool=20)
    loader = BatchLoader(text, plan, seed=1, shuffle=True, source_end=True, candidates=candidates)
    seconds, per_batch = [], []
    for _, batch in zip(range(options.steps), loader, strict=False):
        started = time.perf_counter()
        optimizer.zero_grad()
        (model.loss(batch).objective / batch.global_words).backward()
        clip_norm(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - started)
        per_batch.append(words if batch.candidates is None else len(batch.candidates))
    training_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    model.eval()
    # translations are as long as their sources, because an untrained model would not end them
    search = Search(beam=5, longest_ratio=1.0, longest_extra=0, shortest_ratio=1.0)
    started = time.perf_counter()
    beam_search(model, batch.source, batch.source_lengths, search, candidates=candidates)
    return {
        "seconds_per_step": median(seconds[len(seconds) // 3 :]),
        "words_in_softmax": median(per_batch),
        "sentences_per_second": len(batch.source) / (time.perf_counter() - started),
        "peak_memory_mib": training_memory,
    }


def random_text(words: int) -> tuple:
    """Return sentences of frequent and rare words, and candidate lists with their translations."""
    import numpy as np

    from nmt.data.candidate_lists import Candidates
    from nmt.data.corpus_cache import EncodedText
    from nmt.data.parallel_text import Sides

    random = np.random.default_rng(1)
    frequency = 1 / np.arange(1, SOURCE_WORDS - 3)
    lengths = random.integers(*LENGTHS, SENTENCES)
    source = 4 + random.choice(SOURCE_WORDS - 4, lengths.sum(), p=frequency / frequency.sum())
    translations = np.minimum(4 + (np.arange(SOURCE_WORDS)[:, None] * words) // SOURCE_WORDS, words - 11)
    translations = translations + np.arange(10)
    target = translations[source, random.integers(0, 10, len(source))]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    text = Sides(*(EncodedText(side.astype(np.int32), offsets) for side in (source, target)))
    return text, Candidates(np.arange(FREQUENT), np.arange(SOURCE_WORDS + 1) * 10, translations.reshape(-1))


def print_table(rounds: list[dict], sizes: list[int]) -> None:
    """Print medians over the rounds."""
    print("| words | softmax | words in it | s a training step | / 30k | sentences/s searched | peak memory, MiB |")
    print("|---|---|---|---|---|---|---|")
    for kind in ("whole", "lists"):
        for words in sizes:
            here = [point for point in rounds if point["words"] == words and point["kind"] == kind]
            first = [point for point in rounds if point["words"] == sizes[0] and point["kind"] == kind]
            ratio = median(a["seconds_per_step"] / b["seconds_per_step"] for a, b in zip(here, first, strict=True))
            step, rate = (
                median(point[name] for point in here) for name in ("seconds_per_step", "sentences_per_second")
            )
            memory, inside = max(point["peak_memory_mib"] for point in here), here[0]["words_in_softmax"]
            print(f"| {words:,} | {kind} | {inside:,.0f} | {step:.3f} | {ratio:.2f} | {rate:.1f} | {memory:,} |")


if __name__ == "__main__":
    main()
