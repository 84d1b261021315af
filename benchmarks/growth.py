"""Measure how cost grows with the batch, the sentences, the state, the vocabulary, the beam, the corpus and the ranks.

    python benchmarks/growth.py                                    all axes, on the CPU
    python benchmarks/growth.py --axis length hidden               some axes
    python benchmarks/growth.py --device cuda --precision bf16     on a GPU
    python benchmarks/growth.py --read FILE --plot PICTURE         table and plot of stored figures

The model is `size=small` on random text; each point is measured in a process of its own. Words are target words, and
end symbols count. GFLOP/s count the matrix products only. Each point also has the machine's own rate at that moment, on
large products. This rate separates a drift of the machine's speed from a cost that grows.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from machine import measure_gflops, write_results

ROOT = Path(__file__).parent.parent
BATCH, LENGTH, WORDS = 80, 14, 8000  # on the other axes
WORDS_IN_BATCH = 4000  # on the axis `length`, where all batches have as many words
AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "batch": ("sentences in a batch", (5, 10, 20, 40, 80, 160, 320)),
    "length": ("words in a sentence", (10, 20, 50, 100, 200)),
    "hidden": ("size of the decoder's state", (256, 512, 1024, 2048)),
    "vocabulary": ("words in the vocabulary", (1000, 3000, 10_000, 30_000, 100_000, 300_000)),
    "beam": ("hypotheses in a beam", (1, 2, 5, 10, 20)),
    "corpus": ("pairs in the corpus", (30_000, 300_000, 1_000_000, 5_000_000)),
    "ranks": ("ranks, of one thread each", (1, 2)),
}
SHOWN = {
    "words_per_second": "words/s",
    "gflops": "GFLOP/s",
    "machine_gflops": "the machine's own",
    "sentences_per_second": "sentences/s",
    "pairs_per_second": "pairs/s prepared",
    "warm_seconds": "s to open it and make the first batch",
    "start_seconds": "with Python's imports",
    "peak_memory_mib": "MiB",
}


def main() -> None:
    options = parse()
    if options.inside:
        print(json.dumps(measure_point(options)))
        return
    points = (
        json.loads(Path(options.read).read_text(encoding="utf-8"))["points"] if options.read else measure_axes(options)
    )
    print_tables(points)
    if options.plot:
        plot(points, Path(options.plot))
    if options.output:
        write_results(Path(options.output), options, points=points)
    if failed := [f"{point['axis']} {point['value']}" for point in points if "failed" in point]:
        sys.exit(f"error: {', '.join(failed)} did not come to an end; their error messages are above")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--most", type=int, help="skip larger values, for a quick check")
    parser.add_argument("--size", default="small", help="conf/size to start from")
    parser.add_argument("--steps", type=int, default=12, help="training steps; the first third is warm-up")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--output", help="JSON file for all figures")
    parser.add_argument("--read", help="JSON file of --output to read, instead of measuring")
    parser.add_argument("--plot", help="PNG file for the plot")
    parser.add_argument("--inside", choices=list(AXES), help=argparse.SUPPRESS)
    parser.add_argument("--value", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read and options.output:
        parser.error(
            "--read with --output: the file would name this machine for figures of another. Fix: leave out one"
        )
    return options


def measure_axes(options: argparse.Namespace) -> list[dict]:
    """Measure each point in a process of its own; a point whose process failed has its status under `failed`."""
    points = []
    for axis in options.axis:
        for value in AXES[axis][1]:
            if options.most and value > options.most:
                continue
            command = [sys.executable, __file__, "--inside", axis, "--value", str(value), "--size", options.size]
            command += ["--steps", str(options.steps), "--threads", str(options.threads)]
            command += ["--device", options.device, "--precision", options.precision]
            result = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            failed = result.returncode != 0
            figures = {"failed": result.returncode} if failed else json.loads(result.stdout.splitlines()[-1])
            points.append({"axis": axis, "value": value} | figures)
            print(json.dumps(points[-1]), file=sys.stderr)
    return points


def measure_point(options: argparse.Namespace) -> dict:
    """Measure one point, and the machine's own rate before and after it."""
    import torch

    torch.set_num_threads(options.threads)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    before = measure_gflops(kind, options.device)
    figures = choose_measurement(options.inside)(options.value, options)
    return figures | {"machine_gflops": (before + measure_gflops(kind, options.device)) / 2}


def choose_measurement(axis: str) -> Callable[[int, argparse.Namespace], dict]:
    """Return the function that measures a point of an axis."""
    others = {"beam": measure_search, "corpus": measure_preparation, "ranks": measure_ranks}
    return others.get(axis, training_measurement(axis))


def training_measurement(axis: str) -> Callable[[int, argparse.Namespace], dict]:
    """Return the function that measures training at a value of an axis."""

    def measure(value: int, options: argparse.Namespace) -> dict:
        batch = max(1, WORDS_IN_BATCH // value) if axis == "length" else value if axis == "batch" else BATCH
        length = value if axis == "length" else LENGTH
        words = value if axis == "vocabulary" else WORDS
        # annotations and attention have the size of the state; other sizes do not change
        sizes = [f"size.hidden={value}", f"size.encoder={value // 2}", f"size.attention={value}"]
        return measure_training(options, batch, length, words, sizes if axis == "hidden" else [])

    return measure


def measure_training(
    options: argparse.Namespace, batch_size: int, length: int, words: int, overrides: list[str]
) -> dict:
    """Measure forward pass, backward pass, clipping and Adam on batches that are already in memory."""
    import hydra
    import torch

    from nmt.training.clipping import clip_norm

    config, model = build_model_of_size(options, words, overrides)
    random = random_batches(options.steps, batch_size, length, words)
    operations = matrix_operations(lambda: model.loss(random[0]).objective.backward())
    model.to(options.device)
    optimizer = hydra.utils.instantiate(config.optimizer)(model.parameters())
    batches = [batch.to(options.device) for batch in random]

    def step(batch) -> None:
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model.loss(batch).objective / batch.global_words
        loss.backward()
        clip_norm(model.parameters(), 1.0)
        optimizer.step()

    seconds = [time_call(lambda batch=batch: step(batch), options.device) for batch in batches]
    typical = median(seconds[len(seconds) // 3 :])
    return {
        "words_per_second": batches[0].global_words / typical,
        "gflops": operations / typical / 1e9,
        "peak_memory_mib": peak_memory(options.device),
    }


def matrix_operations(work: Callable[[], object]) -> int:
    """Return the number of operations in the matrix products of `work`.

    The count must run on the CPU, because it misses the products of cuDNN's encoder.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def count_addmm(total: list[int], left: list[int], right: list[int], **_) -> int:
        return 2 * left[0] * left[1] * right[1]

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: count_addmm}) as counter:
        work()
    return counter.get_total_flops()


def measure_search(beam: int, options: argparse.Namespace) -> dict:
    """Measure the search; translations are as long as their sources, because an untrained model would not end them."""
    import torch

    from nmt.search.beam import beam_search
    from nmt.search.settings import Search

    _, model = build_model_of_size(options, WORDS, [])
    model.to(options.device).eval()
    search = Search(beam=beam, longest_ratio=1.0, longest_extra=0, shortest_ratio=1.0)
    batches = [batch.to(options.device) for batch in random_batches(4, BATCH, LENGTH, WORDS)]
    with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
        seconds = [
            time_call(
                lambda batch=batch: beam_search(model, batch.source, batch.source_lengths, search), options.device
            )
            for batch in batches
        ]
    return {"sentences_per_second": BATCH / median(seconds[1:]), "peak_memory_mib": peak_memory(options.device)}


def measure_preparation(pairs: int, options: argparse.Namespace) -> dict:
    """Prepare a generated corpus; then measure how soon a new process makes a first batch from the cache."""
    with tempfile.TemporaryDirectory() as folder:
        from prepare_throughput import write_corpus

        for split, count in (("train", pairs), ("valid", 1000)):
            write_corpus(Path(folder) / split, count)
        command = [sys.executable, "-c", FIRST_BATCH, folder, str(ROOT)]
        cold, warm = (json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(2))
    seconds = {"warm_seconds": warm["data"], "start_seconds": warm["total"]}
    return {"pairs_per_second": pairs / cold["prepare"]} | seconds | {"peak_memory_mib": warm["mib"]}


FIRST_BATCH = """
import json, resource, sys, time
began = time.perf_counter()
folder, root = sys.argv[1:]
sys.path.insert(0, root)
import hydra
import nmt.config.resolvers
files = [f"data.{name}={{source: {folder}/{name}.src, target: {folder}/{name}.tgt}}" for name in ("train", "valid")]
with hydra.initialize_config_dir(root + "/conf", version_base="1.3"):
    config = hydra.compose("config", overrides=["data=text", f"data.cache={folder}/cache", *files])
data = hydra.utils.instantiate(config.data)
imported = time.perf_counter()
data.prepare()
prepared = time.perf_counter()
next(iter(data.train_dataloader()))
ended = time.perf_counter()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
seconds = {"prepare": prepared - imported, "data": ended - imported, "total": ended - began}
print(json.dumps(seconds | {"mib": memory}))
"""


def measure_ranks(ranks: int, options: argparse.Namespace) -> dict:
    """Run `train.py` on the toy language; gloo or NCCL sums the gradients of the ranks."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = [f"trainer.devices={ranks}", "trainer.log_every_n_steps=5", f"trainer.max_steps={5 * options.steps}"]
        accelerator = "gpu" if options.device == "cuda" else "cpu"
        trainer += [f"trainer.accelerator={accelerator}", "trainer.strategy=ddp", "trainer.limit_val_batches=0"]
        trainer += ["trainer.precision=bf16-mixed"] * (options.precision == "bf16")
        command = [sys.executable, str(ROOT / "train.py"), f"size={options.size}", "logger=none", "threads=1"]
        command += [*trainer, "hydra.run.dir=run", "data.train.count=20000", f"data.batches.size={BATCH}"]
        result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        if result.returncode:
            sys.exit(result.stderr)
        with open(Path(folder, "run", "metrics.csv"), encoding="utf-8") as stream:
            logged = [row["train/tokens_per_second"] for row in csv.DictReader(stream)]
    rates = [float(rate) for rate in logged if rate]
    return {"words_per_second": median(rates[len(rates) // 3 :])}


def build_model_of_size(options: argparse.Namespace, words: int, overrides: list[str]) -> tuple:
    """Return the configuration and a model with `words` words on each side."""
    import hydra
    import torch

    import nmt.config.resolvers  # noqa: F401, because the configuration uses its resolvers
    from nmt.config.installation import CONF_DIR
    from nmt.runs.trained_model import build_model

    torch.manual_seed(1)
    with hydra.initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = hydra.compose("config", overrides=[f"size={options.size}", *overrides])
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = words
    return config, build_model(config).train()


def random_batches(count: int, batch_size: int, length: int, words: int) -> list:
    """Return batches of random sentences; `length` counts the end symbol of the target."""
    import numpy as np

    from nmt.data.batches import BatchLoader, BatchPlan
    from nmt.data.corpus_cache import EncodedText
    from nmt.data.parallel_text import Sides

    random = np.random.default_rng(1)
    sentences = count * batch_size
    offsets = np.arange(sentences + 1) * (length - 1)
    sides = (random.integers(4, words, sentences * (length - 1)).astype(np.int32) for _ in range(2))
    text = Sides(*(EncodedText(side, offsets) for side in sides))
    plan = BatchPlan(unit="sentences", size=batch_size, pool=20)
    return list(BatchLoader(text, plan, seed=1, shuffle=True, source_end=True))


def time_call(work: Callable[[], object], device: str) -> float:
    """Return the seconds that `work` takes; on a GPU its end is awaited."""
    import torch

    started = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def peak_memory(device: str) -> int:
    """Return the peak memory in MiB: of the GPU, or of this process."""
    import resource

    import torch

    if device == "cuda":
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def print_tables(points: list[dict]) -> None:
    """Print a table for each axis."""
    for axis in dict.fromkeys(point["axis"] for point in points):
        of_axis = [point for point in points if point["axis"] == axis]
        columns = [name for name in SHOWN if any(name in point for point in of_axis)]
        print(f"\n| {AXES[axis][0]} | {' | '.join(SHOWN[name] for name in columns)} |\n|{'---|' * (len(columns) + 1)}")
        for point in of_axis:
            values = [format_figure(point[name]) if name in point else "failed" for name in columns]
            print(f"| {point['value']:,} | {' | '.join(values)} |")


def format_figure(value: float) -> str:
    """Return a number with three significant digits, or without decimals from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(points: list[dict], path: Path) -> None:
    """Plot speed (above) and memory (below) against each axis, on logarithmic scales."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes = list(dict.fromkeys(point["axis"] for point in points))
    picture = Figure(figsize=(3 * len(axes), 4.8), layout="constrained")
    FigureCanvasAgg(picture)
    panels = picture.subplots(2, len(axes), squeeze=False)
    for column, axis in enumerate(axes):
        of_axis = [point for point in points if point["axis"] == axis and "failed" not in point]
        rates = [name for name in SHOWN if name.endswith("_second") and any(name in point for point in of_axis)]
        for row, name in ((0, rates[0] if rates else ""), (1, "peak_memory_mib")):
            panel = panels[row][column]
            shown = [(point["value"], point[name]) for point in of_axis if name in point]
            if not shown:
                panel.set_axis_off()
                continue
            panel.loglog(*zip(*shown, strict=True), marker="o", color="#2a6f97")
            panel.set_ylim(min(y for _, y in shown) / 2, max(y for _, y in shown) * 2)
            panel.set_ylabel(SHOWN[name])
            panel.set_xlabel(AXES[axis][0])
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_xticks([x for x, _ in shown], [shorten(x) for x, _ in shown], fontsize=8)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.grid(True, linewidth=0.3)
    picture.savefig(path, dpi=90)


def shorten(number: int) -> str:
    """Write 30000 as 30k, and 1000000 as 1M."""
    for size, letter in ((10**6, "M"), (1000, "k")):
        if number >= size and number % size == 0:
            return f"{number // size}{letter}"
    return str(number)


if __name__ == "__main__":
    main()
