"""Measure training speed and memory of Joey NMT 2.3.0 at the comparison sizes, in an environment of its own.

    python benchmarks/joeynmt_peer.py --python PATH_OF_VENV_PYTHON --data FOLDER --updates 60 [--install]
    python benchmarks/joeynmt_peer.py --python PATH_OF_VENV_PYTHON --data FOLDER --size paper --device cuda

FOLDER holds train.en, train.de, valid.en and valid.de, tokenized and lowercased. The script prints one line of JSON;
messages go to standard error. Two interpreters run this file: any Python runs the script above, and the peer's Python
trains. So the top of the file imports only the standard library.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from peers import Peer, measure_second_half

VERSION = "2.3.0"

# torch first and pinned, because a later package would choose another build; Joey with --no-deps, because its
# requirements hold back protobuf and list tools of its developers
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"joeynmt=={VERSION}"],
    ["numpy<2", "pandas<3", "sacrebleu", "tensorboard", "pyyaml", "six", "subword-nmt", "sentencepiece", "matplotlib"],
    ["seaborn", "packaging", "datasets", "psutil", "sacremoses", "importlib_metadata"],
)
JOEY = Peer("joeynmt_peer", "Joey NMT", "joeynmt", VERSION, INSTALLATION)


class Sizes(NamedTuple):
    """The sizes of a model."""

    embedding: int
    encoder: int  # of one direction
    hidden: int
    minimum_count: int  # the vocabulary holds words that occur at least this often


SIZES = {"small": Sizes(256, 256, 512, 2), "paper": Sizes(620, 1000, 1000, 1)}
FILES = ("train.en", "train.de", "valid.en", "valid.de")


def joey_config(data: Path, folder: Path, updates: int, size: str = "small", device: str = "cpu") -> dict:
    """Return Joey's configuration of the comparison model, or of RNNsearch's sizes; a GPU trains in half precision."""
    sizes = SIZES[size]
    language = {"level": "word", "voc_min_freq": sizes.minimum_count, "lowercase": False}
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
        "logging_freq": 1,  # 1, because train_in_peer measures each update in the logging
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
    """Run Joey's own training, and write [seconds, target words so far] of each update to the file `updates`."""
    import torch
    from joeynmt import builders, training

    torch.set_num_threads(threads)
    plateau = builders.ReduceLROnPlateau
    # drop `verbose`, because torch has removed this argument
    builders.ReduceLROnPlateau = lambda verbose, **arguments: plateau(**arguments)
    records: list[tuple[float, int]] = []
    # replace the logging, because it follows the optimizer's step: this times every update and costs nothing
    training.TrainManager._log_scores = lambda manager, *_: records.append(
        (time.perf_counter(), manager.stats.total_tokens)
    )
    settings = json.loads(configuration.read_text())
    Path(settings["model_dir"]).mkdir()
    training.train(rank=0, world_size=None, cfg=settings, skip_test=True)
    updates.write_text(json.dumps(records))
    if torch.cuda.is_available() and settings["use_cuda"]:
        gpu_memory_path(updates).write_text(str(torch.cuda.max_memory_allocated() // 2**20))


def gpu_memory_path(updates: Path) -> Path:
    """Return the file for the peak memory of the GPU, beside the file `updates`."""
    return updates.with_suffix(".gpu")


def measure(python: Path, data: Path, options: argparse.Namespace) -> dict:
    """Train in the peer's environment, and return its speed and peak memory: that of the GPU, or of the process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration, clock = folder / "config.json", folder / "updates.json"
        configuration.write_text(json.dumps(joey_config(data, folder, options.updates, options.size, options.device)))
        command = [str(python), __file__, "--train-in-peer", str(configuration), str(clock), str(options.threads)]
        memory = JOEY.run(command, options.threads, folder / "log.txt")
        if (gpu_memory := gpu_memory_path(clock)).exists():
            memory = int(gpu_memory.read_text())
        return {"system": "joeynmt", **measure_second_half(clock, options.updates), "peak_memory_mib": memory}


def main() -> None:
    if sys.argv[1:2] == ["--train-in-peer"]:
        configuration, clock, threads = sys.argv[2:]
        train_in_peer(Path(configuration), int(threads), Path(clock))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="Python of the environment with Joey NMT")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en train.de valid.en valid.de")
    parser.add_argument("--updates", type=int, default=60, help="updates to train; the second half is measured")
    parser.add_argument("--size", default="small", choices=list(SIZES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--install", action="store_true", help="create the environment first")
    arguments = parser.parse_args()
    if arguments.updates < 2:
        parser.error(f"--updates {arguments.updates}: must be at least 2")
    # not resolve(), because the Python of a virtual environment is a link out of it
    python = arguments.python.absolute()
    if arguments.install:
        JOEY.install(python)
    JOEY.stop_child_on_sigterm()
    data = arguments.data.resolve()
    JOEY.check(python, data, FILES)
    print(json.dumps(measure(python, data, arguments)))


if __name__ == "__main__":
    main()
