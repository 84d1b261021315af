"""Run all benchmarks: training, search, growth and start-up, ours and those of the peers in turn.

    python benchmarks/everything.py                     on the CPU; NMT_DATA names the folder with Multi30k
    python benchmarks/everything.py --device cuda       on a GPU: RNNsearch's sizes in bfloat16, and how cost grows
    python benchmarks/everything.py --only train search only parts whose names begin with these words
    python benchmarks/everything.py --quick             a few steps of tiny models, to check that the scripts run

Each peer is installed once, into an environment of its own in --folder. A peer whose installation fails is skipped, and
the reason is printed. The figures go to benchmarks/results/PART_DATE.json, the tables to standard output.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eole_peer import EOLE
from joeynmt_peer import JOEY
from opennmt_peer import OPENNMT
from peers import Peer

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS = {"joeynmt": JOEY, "opennmt": OPENNMT, "eole": EOLE}
TRAINING = {"joeynmt": "joeynmt_search.py", "opennmt": "opennmt_peer.py"}  # scripts that train a model for the search
COMPARISON = (  # the comparison model, as in train_throughput.py
    "data=multi30k",
    "size=small",
    "decoder=bahdanau",
    "decoder.readout._target_=nmt.model.readout.DeepOutput",
    "~decoder.readout.maxout_size",
    "size.readout=512",
    "data.batches.size=80",
    "trainer=cpu",
    "trainer.max_epochs=4",
    "logger=none",
)


GPU_SETTINGS = ("graphs=false", "data.batches.size=320")
GPU_MECHANISMS = ("attention=general", "attention=local_p", "attention=coverage", "attention=coverage_fertility")
GPU_MECHANISMS += ("attention=temporal", "attention=interactive", "memory=buffer")


class Part(NamedTuple):
    """One call of a benchmark."""

    name: str
    script: str
    arguments: list[str]
    peers: tuple[str, ...] = ()
    searches: bool = False  # true: needs trained models


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    needed = {name for part in parts(options) for name in part.peers}
    pythons = {name: python for name in sorted(needed) if (python := install_peer(PEERS[name], options.folder / name))}
    failed = []
    for part in parts(options):
        print(f"\n## {part.name}\n", flush=True)
        if not run_part(part, options, pythons):
            failed.append(part.name)
    if failed:
        sys.exit(f"error: {', '.join(failed)} did not come to an end; their error messages are above")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", help="run only parts whose names begin with these words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "benchmarks", help="peers and trained models")
    parser.add_argument(
        "--results", type=Path, help="folder for the figures; default: benchmarks/results, with --quick FOLDER/quick"
    )
    options = parser.parse_args()
    options.results = options.results or (options.folder / "quick" if options.quick else HERE / "results")
    if not parts(options):
        options.only, unknown = None, options.only
        parser.error(f"--only {' '.join(unknown)}: there are {', '.join(part.name for part in parts(options))}")
    return options


def parts(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options choose."""
    available = (
        quick_parts() if options.quick else cpu_parts(options) if options.device == "cpu" else gpu_parts(options)
    )
    return [part for part in available if not options.only or part.name.startswith(tuple(options.only))]


def quick_parts() -> list[Part]:
    tiny = ["--size", "tiny"]
    return [
        Part("train_tiny", "train_throughput.py", [*tiny, "--data", "random", "--updates", "6", "--rounds", "1"]),
        Part("growth", "growth.py", [*tiny, "--steps", "3", "--most", "5", "--axis", "batch", "beam"]),
    ]


def cpu_parts(options: argparse.Namespace) -> list[Part]:
    rounds = ["--rounds", str(options.rounds)]
    low_precision = ["--mechanism", "matmul_precision=medium", "--mechanism", "trainer.precision=bf16-mixed"]
    paper = ["--size", "paper", "--data", "random", "--updates", "9"]
    searches = ["beam=5 stop=first", "beam=5 int8=true stop=first", "beam=1 int8=true"]
    other_searches = [argument for search in searches for argument in ("--search", search)]
    return [
        Part("train_small", "train_throughput.py", rounds, peers=tuple(PEERS)),
        Part("train_small_precision", "train_throughput.py", [*rounds, *low_precision]),
        Part("train_paper", "train_throughput.py", [*rounds, *paper]),
        Part("search", "search_throughput.py", [*rounds, *other_searches], peers=tuple(TRAINING), searches=True),
        Part("large_vocabulary", "large_vocabulary.py", rounds),
        Part("growth", "growth.py", ["--plot", str(options.results / "growth.png")]),
        Part("startup", "startup.py", [], searches=True),
    ]


def gpu_parts(options: argparse.Namespace) -> list[Part]:
    """Return RNNsearch's sizes, with graphs, without, and with larger batches; mechanisms; the search; growth."""
    paper = ["--size", "paper", "--data", "random", "--device", "cuda", "--updates", "400"]
    paper += ["--rounds", str(options.rounds), "--override", "trainer.precision=bf16-mixed"]
    paper += ["--override", "graphs=true"]
    # graphs twice: in the first search they are recorded
    graphed = ["--search=beam=5 graphs=true"] * 2 + ["--search=beam=1 graphs=true"] * 2
    search = ["--device", "cuda", "--beams", "1", "5", *graphed, "--rounds", str(options.rounds)]
    growth = ["--device", "cuda", "--precision", "bf16", "--steps", "30", "--size", "base"]
    return [
        Part("gpu_train_paper", "train_throughput.py", [*paper, *among(GPU_SETTINGS)], peers=("joeynmt",)),
        Part("gpu_mechanisms", "train_throughput.py", [*paper, *among(GPU_MECHANISMS)]),
        Part("gpu_search", "search_throughput.py", search, searches=True),
        Part("gpu_growth", "growth.py", growth),
    ]


def among(mechanisms: tuple[str, ...]) -> list[str]:
    return [argument for mechanism in mechanisms for argument in ("--mechanism", mechanism)]


def install_peer(peer: Peer, folder: Path) -> str | None:
    """Return the Python of a peer's environment; None, after a message, if the installation fails."""
    python = folder / "bin" / "python"
    try:
        once(folder, f"installing {peer.title} into {folder}", lambda: peer.install(python))
    except SystemExit as reason:
        print(f"{peer.title} is skipped: {reason}", file=sys.stderr)
        return None
    return str(python)


def once(folder: Path, what: str, make: Callable[[], object]) -> None:
    """Make a folder, unless it is complete; an incomplete one is removed first."""
    stamp = folder.with_name(f"{folder.name}.complete")
    if not stamp.exists():
        print(what, file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        make()
        stamp.touch()


def run_part(part: Part, options: argparse.Namespace, pythons: dict[str, str]) -> bool:
    """Run a part, which writes its figures; return False if it fails."""
    output = options.results / f"{part.name}_{time.strftime('%Y-%m-%d')}.json"
    command = [sys.executable, str(HERE / part.script), *part.arguments, "--output", str(output)]
    peers = {name: pythons[name] for name in part.peers if name in pythons}
    command += [argument for name, python in peers.items() for argument in (f"--{name}", python)]
    try:
        if part.searches:
            command += ["--run", str(train_ours(options.folder / "run")), *train_peers(options.folder, peers)]
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        print(error, file=sys.stderr)
        return False
    return True


def train_ours(run: Path) -> Path:
    """Train our model for the search; a stopped training resumes, and a completed one is not repeated."""
    subprocess.run([sys.executable, ROOT / "train.py", *COMPARISON, f"hydra.run.dir={run}"], check=True)
    return run


def train_peers(folder: Path, pythons: dict[str, str]) -> list[str]:
    """Train the models of the peers once, and return the arguments that name the text and the models."""
    if not pythons:
        return []
    text, models = folder / "text", []
    write_text = [sys.executable, HERE / "train_throughput.py", "--write-text", text]
    once(text, f"writing {text}", lambda: subprocess.run(write_text, check=True))
    for peer, python in pythons.items():
        model = folder / f"{peer}_model" / "model"
        command = [sys.executable, HERE / TRAINING[peer], "train", "--python", python, "--data", text]
        command += ["--model", model, "--updates", "450"]
        once(
            model, f"training {PEERS[peer].title}'s model", lambda command=command: subprocess.run(command, check=True)
        )
        models += [f"--{peer}-model", str(model)]
    return ["--text", str(text), *models]


if __name__ == "__main__":
    main()
