"""How cost grows: with the batch, the sentences, the state, the vocabulary, the beam, the corpus and the ranks.

    python benchmarks/growth.py                                    every axis, on this machine's CPU
    python benchmarks/growth.py --axis length hidden               some of them
    python benchmarks/growth.py --device cuda --precision bf16     on a GPU
    python benchmarks/growth.py --read FILE --plot PICTURE         table and plot of figures that are there already

The model is `size=small` on random text; every point is a process of its own. Words are target words, end symbols
counted. GFLOP/s are of the matrix products alone; beside each point stands the machine's own rate in the same moment,
large products alone, so that a machine that drifts can be told from a cost that grows.
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

from machine import keep, rate

ROOT = Path(__file__).parent.parent
BATCH, LENGTH, WORDS = 80, 14, 8000  # where another axis is measured
WORDS_IN_BATCH = 4000  # on the axis of lengths, where batches have equally many words
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
        print(json.dumps(measured_beside_the_machine(options)))
        return
    points = json.loads(Path(options.read).read_text(encoding="utf-8"))["points"] if options.read else measure(options)
    report(points)
    if options.plot:
        plot(points, Path(options.plot))
    if options.output:
        keep(Path(options.output), options, points=points)
    if failed := [f"{point['axis']} {point['value']}" for point in points if "failed" in point]:
        sys.exit(f"error: {', '.join(failed)} did not come to an end; what they said stands above")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--most", type=int, help="leave out larger values: for a quick look")
    parser.add_argument("--size", default="small", help="conf/size to start from")
    parser.add_argument("--steps", type=int, default=12, help="training steps; the first third is warm-up")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--output", help="JSON file for every figure")
    parser.add_argument("--read", help="such a file, instead of measuring")
    parser.add_argument("--plot", help="PNG file")
    parser.add_argument("--inside", choices=list(AXES), help=argparse.SUPPRESS)
    parser.add_argument("--value", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read and options.output:
        parser.error("--read with --output: what was measured elsewhere would be said to be of this machine")
    return options


def measure(options: argparse.Namespace) -> list[dict]:
    points = []
    for axis in options.axis:
        for value in AXES[axis][1]:
            if options.most and value > options.most:
                continue
            command = [sys.executable, __file__, "--inside", axis, "--value", str(value), "--size", options.size]
            command += ["--steps", str(options.steps), "--threads", str(options.threads)]
            command += ["--device", options.device, "--precision", options.precision]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.returncode}
            points.append({"axis": axis, "value": value} | found)
            print(json.dumps(points[-1]), file=sys.stderr)
    return points


def measured_beside_the_machine(options: argparse.Namespace) -> dict:
    import torch

    torch.set_num_threads(options.threads)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    before = rate(kind, options.device)
    found = measurement_of(options.inside)(options.value, options)
    return found | {"machine_gflops": (before + rate(kind, options.device)) / 2}


def measurement_of(axis: str) -> Callable[[int, argparse.Namespace], dict]:
    return {"beam": searching, "corpus": preparing, "ranks": training_in_ranks}.get(axis, training_along(axis))


def training_along(axis: str) -> Callable[[int, argparse.Namespace], dict]:
    def measured(value: int, options: argparse.Namespace) -> dict:
        batch = max(1, WORDS_IN_BATCH // value) if axis == "length" else value if axis == "batch" else BATCH
        length = value if axis == "length" else LENGTH
        words = value if axis == "vocabulary" else WORDS
        # the state and what goes with it: annotations and attention of its size, everything else as it is
        sizes = [f"size.hidden={value}", f"size.encoder={value // 2}", f"size.attention={value}"]
        return training(options, batch, length, words, sizes if axis == "hidden" else [])

    return measured


def training(options: argparse.Namespace, batch_size: int, length: int, words: int, overrides: list[str]) -> dict:
    """Forward, backward, clipping and Adam, over batches that are there already."""
    import hydra
    import torch

    from nmt.training.clipping import clip_norm

    config, model = built(options, words, overrides)
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

    seconds = [timed(lambda batch=batch: step(batch), options.device) for batch in batches]
    typical = median(seconds[len(seconds) // 3 :])
    return {
        "words_per_second": batches[0].global_words / typical,
        "gflops": operations / typical / 1e9,
        "peak_memory_mib": memory(options.device),
    }


def matrix_operations(work: Callable[[], object]) -> int:
    """Of all matrix products in it. Counted on the CPU, where each is one: cuDNN's encoder would not be seen."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def of_addmm(total: list[int], left: list[int], right: list[int], **_) -> int:
        return 2 * left[0] * left[1] * right[1]

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: of_addmm}) as counter:
        work()
    return counter.get_total_flops()


def searching(beam: int, options: argparse.Namespace) -> dict:
    """Greedy with a beam of 1; an untrained model would not end, so translations are as long as their sources."""
    import torch

    from nmt.search.beam import beam_search
    from nmt.search.settings import Search

    _, model = built(options, WORDS, [])
    model.to(options.device).eval()
    how = Search(beam=beam, longest_ratio=1.0, longest_extra=0, shortest_ratio=1.0)
    batches = [batch.to(options.device) for batch in random_batches(4, BATCH, LENGTH, WORDS)]
    with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
        seconds = [
            timed(lambda batch=batch: beam_search(model, batch.source, batch.source_lengths, how), options.device)
            for batch in batches
        ]
    return {"sentences_per_second": BATCH / median(seconds[1:]), "peak_memory_mib": memory(options.device)}


def preparing(pairs: int, options: argparse.Namespace) -> dict:
    """A generated corpus, prepared; then a new process's way from what is kept to its first batch."""
    with tempfile.TemporaryDirectory() as folder:
        from prepare_throughput import write

        for split, count in (("train", pairs), ("valid", 1000)):
            write(Path(folder) / split, count)
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


def training_in_ranks(ranks: int, options: argparse.Namespace) -> dict:
    """`train.py` itself on the toy language, gradients summed over gloo or NCCL."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = [f"trainer.devices={ranks}", "trainer.log_every_n_steps=5", f"trainer.max_steps={5 * options.steps}"]
        accelerator = "gpu" if options.device == "cuda" else "cpu"
        trainer += [f"trainer.accelerator={accelerator}", "trainer.strategy=ddp", "trainer.limit_val_batches=0"]
        trainer += ["trainer.precision=bf16-mixed"] * (options.precision == "bf16")
        command = [sys.executable, str(ROOT / "train.py"), f"size={options.size}", "logger=none", "threads=1"]
        command += [*trainer, "hydra.run.dir=run", "data.train.count=20000", f"data.batches.size={BATCH}"]
        trained = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        if trained.returncode:
            sys.exit(trained.stderr)
        with open(Path(folder, "run", "metrics.csv"), encoding="utf-8") as stream:
            logged = [row["train/tokens_per_second"] for row in csv.DictReader(stream)]
    rates = [float(rate) for rate in logged if rate]
    return {"words_per_second": median(rates[len(rates) // 3 :])}


def built(options: argparse.Namespace, words: int, overrides: list[str]) -> tuple:
    import hydra
    import torch

    import nmt.config.resolvers  # noqa: F401 – the configuration uses them
    from nmt.runs.trained_model import build_model

    torch.manual_seed(1)
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = hydra.compose("config", overrides=[f"size={options.size}", *overrides])
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = words
    return config, build_model(config).train()


def random_batches(count: int, batch_size: int, length: int, words: int) -> list:
    """Of sentences of this many words; the target's end symbols are counted among its words."""
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
    return list(BatchLoader(text, plan, sentences=np.arange(sentences), seed=1, shuffle=True, source_end=True))


def timed(work: Callable[[], object], device: str) -> float:
    import torch

    started = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def memory(device: str) -> int:
    """The most that was in use."""
    import resource

    import torch

    if device == "cuda":
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def report(points: list[dict]) -> None:
    for axis in dict.fromkeys(point["axis"] for point in points):
        own = [point for point in points if point["axis"] == axis]
        columns = [name for name in SHOWN if any(name in point for point in own)]
        print(f"\n| {AXES[axis][0]} | {' | '.join(SHOWN[name] for name in columns)} |\n|{'---|' * (len(columns) + 1)}")
        for point in own:
            values = [figure(point[name]) if name in point else "failed" for name in columns]
            print(f"| {point['value']:,} | {' | '.join(values)} |")


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(points: list[dict], path: Path) -> None:
    """A panel for each axis: what is fast above, memory below it, both against the axis, all logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes = list(dict.fromkeys(point["axis"] for point in points))
    picture = Figure(figsize=(3 * len(axes), 4.8), layout="constrained")
    FigureCanvasAgg(picture)
    panels = picture.subplots(2, len(axes), squeeze=False)
    for column, axis in enumerate(axes):
        own = [point for point in points if point["axis"] == axis and "failed" not in point]
        rates = [name for name in SHOWN if name.endswith("_second") and any(name in point for point in own)]
        for row, name in ((0, rates[0] if rates else ""), (1, "peak_memory_mib")):
            panel = panels[row][column]
            shown = [(point["value"], point[name]) for point in own if name in point]
            if not shown:
                panel.set_axis_off()
                continue
            panel.loglog(*zip(*shown, strict=True), marker="o", color="#2a6f97")
            panel.set_ylim(min(y for _, y in shown) / 2, max(y for _, y in shown) * 2)
            panel.set_ylabel(SHOWN[name])
            panel.set_xlabel(AXES[axis][0])
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_xticks([x for x, _ in shown], [short(x) for x, _ in shown], fontsize=8)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.grid(True, linewidth=0.3)
    picture.savefig(path, dpi=90)


def short(number: int) -> str:
    """30000 → 30k"""
    for size, letter in ((10**6, "M"), (1000, "k")):
        if number >= size and number % size == 0:
            return f"{number // size}{letter}"
    return str(number)


if __name__ == "__main__":
    main()
