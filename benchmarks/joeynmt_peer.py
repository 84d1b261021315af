"""Training speed and memory of Joey NMT 2.3.0 at the sizes of the comparison, measured in an environment of its own.

    python benchmarks/joeynmt_peer.py --python PATH_OF_VENV_PYTHON --data FOLDER --updates 60 [--install]
    python benchmarks/joeynmt_peer.py --python PATH_OF_VENV_PYTHON --data FOLDER --size paper --device cuda

FOLDER holds train.en, train.de, valid.en and valid.de, tokenised and lowercased. Prints one line of JSON; all else
goes to standard error. This file is run by two interpreters: by any Python as the script above, and by the peer's
Python, which trains. So nothing but the standard library is imported at the top.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from peers import Peer, second_half

VERSION = "2.3.0"

# Torch first and pinned, so that nothing after it chooses another build. Joey without its own requirements, which hold
# back protobuf and name its developers' tools.
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"joeynmt=={VERSION}"],
    ["numpy<2", "pandas<3", "sacrebleu", "tensorboard", "pyyaml", "six", "subword-nmt", "sentencepiece", "matplotlib"],
    ["seaborn", "packaging", "datasets", "psutil", "sacremoses", "importlib_metadata"],
)
JOEY = Peer("joeynmt_peer", "Joey NMT", "joeynmt", VERSION, INSTALLATION)


class Sizes(NamedTuple):
    embedding: int
    encoder: int  # of a direction
    hidden: int
    rarest: int  # how often a word must occur


SIZES = {"small": Sizes(256, 256, 512, 2), "paper": Sizes(620, 1000, 1000, 1)}
FILES = ("train.en", "train.de", "valid.en", "valid.de")


def config(data: Path, folder: Path, updates: int, size: str = "small", device: str = "cpu") -> dict:
    """Joey's configuration of the comparison model, or of RNNsearch's sizes; on a GPU in half precision."""
    sizes = SIZES[size]
    language = {"level": "word", "voc_min_freq": sizes.rarest, "lowercase": False}
    return {
        "name": size,
        "joeynmt_version": VERSION,
        "model_dir": str(folder / "model"),
        "use_cuda": device == "cuda",
        "fp16": device == "cuda",
        "random_seed": 1,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "valid"),
            "dataset_type": "plain",
            "src": language | {"lang": "en"},
            "trg": language | {"lang": "de"},
        },
        "testing": {"batch_size": 80, "batch_type": "sentence", "beam_size": 1, "eval_metrics": []},
        "training": training_settings(updates),
        "model": model_settings(sizes),
    }


def training_settings(updates: int) -> dict:
    never = 10**9
    return {
        "optimizer": "adam",
        "learning_rate": 0.001,
        "learning_rate_min": 0.0,
        "scheduling": "plateau",
        "clip_grad_norm": 1.0,
        "normalization": "tokens",
        "early_stopping_metric": "loss",
        "batch_size": 80,
        "batch_type": "sentence",
        "epochs": never,
        "updates": updates,
        "logging_freq": 1,  # the measuring hook sits in the logging, see train_in_peer
        "validation_freq": never,
        "shuffle": True,
    }


def model_settings(sizes: Sizes) -> dict:
    embeddings = {"embedding_dim": sizes.embedding, "scale": False, "dropout": 0.2}
    both = {"type": "recurrent", "rnn_type": "gru", "embeddings": embeddings, "num_layers": 1, "dropout": 0.2}
    decoder = {"hidden_dropout": 0.2, "attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge"}
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "encoder": both | {"hidden_size": sizes.encoder, "bidirectional": True},
        "decoder": both | decoder | {"hidden_size": sizes.hidden},
    }


def train_in_peer(configuration: Path, threads: int, updates: Path) -> None:
    """Run Joey's own training; write [seconds, target words so far] after each update to the file `updates`."""
    import torch
    from joeynmt import builders, training

    torch.set_num_threads(threads)
    plateau = builders.ReduceLROnPlateau
    # Joey passes `verbose`, which torch no longer knows.
    builders.ReduceLROnPlateau = lambda verbose, **arguments: plateau(**arguments)
    records: list[tuple[float, int]] = []
    # Joey logs after the optimiser's step; taking the logging's place times every update and costs nothing.
    training.TrainManager._log_scores = lambda manager, *_: records.append(
        (time.perf_counter(), manager.stats.total_tokens)
    )
    settings = json.loads(configuration.read_text())
    Path(settings["model_dir"]).mkdir()
    training.train(rank=0, world_size=None, cfg=settings, skip_test=True)
    updates.write_text(json.dumps(records))
    if torch.cuda.is_available() and settings["use_cuda"]:
        gpu_memory_beside(updates).write_text(str(torch.cuda.max_memory_allocated() // 2**20))


def gpu_memory_beside(updates: Path) -> Path:
    return updates.with_suffix(".gpu")


def measure(python: Path, data: Path, options: argparse.Namespace) -> dict:
    """Train in the peer's environment and read its clock and its memory: the GPU's own account, or the system's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration, clock = folder / "config.json", folder / "updates.json"
        configuration.write_text(json.dumps(config(data, folder, options.updates, options.size, options.device)))
        command = [str(python), __file__, "--train-in-peer", str(configuration), str(clock), str(options.threads)]
        memory = JOEY.run(command, options.threads, folder / "log.txt")
        if (on_gpu := gpu_memory_beside(clock)).exists():
            memory = int(on_gpu.read_text())
        return {"system": "joeynmt", **second_half(clock, options.updates), "peak_memory_mib": memory}


def main() -> None:
    if sys.argv[1:2] == ["--train-in-peer"]:
        configuration, clock, threads = sys.argv[2:]
        train_in_peer(Path(configuration), int(threads), Path(clock))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="the Python of the environment that holds Joey NMT")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en train.de valid.en valid.de")
    parser.add_argument("--updates", type=int, default=60, help="updates to train; the second half is measured")
    parser.add_argument("--size", default="small", choices=list(SIZES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--install", action="store_true", help="make the environment first")
    arguments = parser.parse_args()
    if arguments.updates < 2:
        parser.error("--updates must be at least 2")
    python = arguments.python.absolute()  # not resolved: a virtual environment's Python is a link out of it
    if arguments.install:
        JOEY.install(python)
    JOEY.stop_with_its_child()
    data = arguments.data.resolve()
    JOEY.check(python, data, FILES)
    print(json.dumps(measure(python, data, arguments)))


if __name__ == "__main__":
    main()
