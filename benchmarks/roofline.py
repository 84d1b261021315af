"""Measure which share of a training step is matrix products, and how near they come to the rate of this processor.

    python benchmarks/roofline.py --threads 1                          the comparison size, in each precision
    python benchmarks/roofline.py --size paper --data random --threads 1

The rate of the processor is that of large square products in the same precision, measured before and after the steps.
`at that rate` is the share of a step that its products would take at this rate. `products` is the share that they take
in torch's profile, and `outside` is the rest. The operations outside that take most are listed below the table.

A step is forward pass, backward pass, clipping and Adam on batches in memory. Each precision is measured in a process
of its own, and the precisions in turn. With one thread the time is that of the process on the processor, so that
other programs lengthen it little.
"""

import argparse
import json
import sys
from collections import Counter
from statistics import median

from growth import matrix_operations
from machine import measure_gflops, read_figures, run_rounds
from peers import choose_clock
from train_throughput import compose

PRECISIONS = ("highest", "medium", "bf16")
PRODUCTS = ("mm", "addmm", "addmm_", "bmm", "baddbmm", "mkldnn_linear")  # of torch.ops.aten
SHOWN = 8  # operations outside the products


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(measure(options)))
        return
    run_rounds(options, lambda: {each: measure_in_process(each, options) for each in options.precision}, print_table)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=["tiny", "small", "paper"])
    parser.add_argument("--data", default="multi30k", choices=["multi30k", "random"])
    parser.add_argument("--precision", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--updates", type=int, default=12, help="steps; the first third is warm-up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--override", action="append", default=[], help="KEY=VALUE for our model")
    parser.add_argument("--output", help="JSON file for all figures")
    parser.add_argument("--inside", choices=PRECISIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.device = "cpu"
    return options


def measure_in_process(precision: str, options: argparse.Namespace) -> dict:
    """Measure one precision in a process of its own."""
    command = [sys.executable, __file__, "--inside", precision, "--size", options.size, "--data", options.data]
    command += ["--updates", str(options.updates), "--threads", str(options.threads)]
    command += [f"--override={override}" for override in options.override]
    return read_figures(command)


def measure(options: argparse.Namespace) -> dict:
    """Return the rate of the processor, the time and operations of a step, and the shares of its operations."""
    import hydra
    import torch

    from nmt.runs.trained_model import build_model
    from nmt.training.clipping import clip_norm

    config, data = compose(options)
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("highest" if options.inside == "bf16" else options.inside)
    torch.manual_seed(1)
    model = build_model(config).train()
    optimizer = hydra.utils.instantiate(config.optimizer)(model.parameters())
    loader = data.train_dataloader()
    batches = [batch for batch, _ in zip(loader, range(options.updates), strict=False)]
    clock, kind = choose_clock(options.threads), torch.bfloat16 if options.inside == "bf16" else torch.float32

    def step(batch) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.inside == "bf16"):
            loss = model.loss(batch).objective / batch.global_words
        loss.backward()
        clip_norm(model.parameters(), 1.0)
        optimizer.step()

    for batch in batches[: len(batches) // 3]:
        step(batch)
    measured = batches[len(batches) // 3 :]
    operations = [matrix_operations(lambda batch=batch: step(batch)) for batch in measured]
    before, started = measure_gflops(kind, "cpu", clock=clock), clock()
    for batch in measured:
        step(batch)
    seconds = clock() - started
    rate = (before + measure_gflops(kind, "cpu", clock=clock)) / 2
    return {
        "words_per_second": sum(batch.global_words for batch in measured) / seconds,
        "seconds_per_step": seconds / len(measured),
        "gflop_per_step": sum(operations) / len(measured) / 1e9,
        "products_gflops": rate,
        "at_that_rate": sum(operations) / 1e9 / rate / seconds,
        "shares": profile_shares(step, measured),
    }


def profile_shares(step, batches: list) -> dict[str, float]:
    """Return the share of the profiled time that each operation takes itself, the products as one."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for batch in batches:
            step(batch)
    times: Counter = Counter()
    for event in profile.key_averages():
        name = event.key.removeprefix("aten::")
        times["products" if name in PRODUCTS else name] += event.self_cpu_time_total
    total = sum(times.values())
    return {name: time / total for name, time in times.most_common()}


def print_table(rounds: list[dict]) -> None:
    """Print medians over the rounds."""
    columns = ("precision", "words/s", "s a step", "GFLOP a step", "GFLOP/s of the processor", "at that rate")
    print(f"| {' | '.join([*columns, 'products', 'outside'])} |")
    print("|---" * (len(columns) + 2) + "|")
    for precision in rounds[0]:
        turns = [turn[precision] for turn in rounds]
        words, seconds, operations, rate, ideal = (
            median(turn[name] for turn in turns)
            for name in ("words_per_second", "seconds_per_step", "gflop_per_step", "products_gflops", "at_that_rate")
        )
        products = median(turn["shares"]["products"] for turn in turns)
        row = f"{words:,.0f} | {seconds:.3f} | {operations:.1f} | {rate:.0f} | {ideal:.0%} | {products:.0%}"
        print(f"| {precision} | {row} | {1 - products:.0%} |")
    for precision, turn in rounds[-1].items():
        outside = [(name, share) for name, share in turn["shares"].items() if name != "products"][:SHOWN]
        print(f"\n{precision}, outside: {', '.join(f'{name} {share:.1%}' for name, share in outside)}")


if __name__ == "__main__":
    main()
