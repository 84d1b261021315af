"""Training speed and memory of Joey NMT 2.3.0 at the `small` comparison size, measured in an environment of its own.

    python benchmarks/joeynmt_peer.py --python PATH_OF_VENV_PYTHON --data FOLDER --updates 60 [--install]

FOLDER holds train.en, train.de, valid.en and valid.de, tokenised and lowercased. Prints one line of JSON; all else
goes to standard error. This file is run by two interpreters: by any Python as the script above, and by the peer's
Python, which trains. So nothing but the standard library is imported at the top.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSION = "2.3.0"

# Torch first and pinned, so that nothing after it chooses another build. Joey without its own requirements, which hold
# back protobuf and name its developers' tools.
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"joeynmt=={VERSION}"],
    ["numpy<2", "pandas<3", "sacrebleu", "tensorboard", "pyyaml", "six", "subword-nmt", "sentencepiece", "matplotlib"],
    ["seaborn", "packaging", "datasets", "psutil", "sacremoses", "importlib_metadata"],
)


def config(data: Path, folder: Path, updates: int) -> dict:
    """Joey's configuration of the comparison model."""
    never = 10**9
    language = {"level": "word", "voc_min_freq": 2, "lowercase": False}
    embeddings = {"embedding_dim": 256, "scale": False, "dropout": 0.2}
    return {
        "name": "small",
        "joeynmt_version": VERSION,
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 1,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "valid"),
            "dataset_type": "plain",
            "src": language | {"lang": "en"},
            "trg": language | {"lang": "de"},
        },
        "testing": {"batch_size": 80, "batch_type": "sentence", "beam_size": 1, "eval_metrics": []},
        "training": {
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
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "encoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": embeddings,
                "hidden_size": 256,
                "bidirectional": True,
                "num_layers": 1,
                "dropout": 0.2,
            },
            "decoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": embeddings,
                "hidden_size": 512,
                "num_layers": 1,
                "dropout": 0.2,
                "hidden_dropout": 0.2,
                "attention": "bahdanau",
                "input_feeding": True,
                "init_hidden": "bridge",
            },
        },
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


def install(python: Path) -> None:
    """Make the environment that `python` (…/bin/python) belongs to, with Joey in it."""
    commands = [[sys.executable, "-m", "venv", str(python.parent.parent)]]
    commands += [[str(python), "-m", "pip", "install", "--quiet", *packages] for packages in INSTALLATION]
    for command in commands:
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
            sys.exit(f"joeynmt_peer: installing failed at: {' '.join(command)}")


def check(python: Path, data: Path) -> None:
    """Leave with one line if something is missing."""
    missing = [name for name in ("train.en", "train.de", "valid.en", "valid.de") if not (data / name).is_file()]
    if missing:
        sys.exit(f"joeynmt_peer: {data} has no {', '.join(missing)}")
    if not python.is_file():
        sys.exit(f"joeynmt_peer: there is no Python at {python}; --install makes an environment there")
    question = "from importlib import metadata; print(metadata.version('joeynmt'))"
    answer = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
    found = answer.stdout.strip() or "not installed"
    if found != VERSION:
        sys.exit(f"joeynmt_peer: Joey NMT {VERSION} is needed at {python}, it is {found}; --install installs it")


def measure(python: Path, data: Path, updates: int, threads: int) -> dict:
    """Train in the peer's environment and read its clock and the operating system's account of its memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration, clock, log = folder / "config.json", folder / "updates.json", folder / "log.txt"
        configuration.write_text(json.dumps(config(data, folder, updates)))
        command = [str(python), __file__, "--train-in-peer", str(configuration), str(clock), str(threads)]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        with log.open("w") as output:
            child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder)
            try:
                _, status, usage = os.wait4(child.pid, 0)  # of this child alone, unlike getrusage(RUSAGE_CHILDREN)
                child.returncode = os.waitstatus_to_exitcode(status)
            finally:
                child.kill()  # does nothing once the child has ended; an interrupted benchmark must not train on
        if child.returncode:
            last = (log.read_text(errors="replace").strip() or "no output").splitlines()[-1]
            sys.exit(f"joeynmt_peer: training ended with status {child.returncode}: {last}")
        records = json.loads(clock.read_text())
    (began, words_before), (ended, words) = records[updates // 2 - 1], records[-1]
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss counts bytes there, KiB elsewhere
    return {
        "system": "joeynmt",
        "tokens_per_second": round((words - words_before) / (ended - began), 1),
        "peak_memory_mib": round(usage.ru_maxrss / unit),
        "updates": len(records),
    }


def main() -> None:
    if sys.argv[1:2] == ["--train-in-peer"]:
        configuration, clock, threads = sys.argv[2:]
        train_in_peer(Path(configuration), int(threads), Path(clock))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="the Python of the environment that holds Joey NMT")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en train.de valid.en valid.de")
    parser.add_argument("--updates", type=int, default=60, help="updates to train; the second half is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--install", action="store_true", help="make the environment first")
    arguments = parser.parse_args()
    if arguments.updates < 2:
        parser.error("--updates must be at least 2")
    python = arguments.python.absolute()  # not resolved: a virtual environment's Python is a link out of it
    if arguments.install:
        install(python)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("joeynmt_peer: terminated"))  # so that `finally` is reached
    data = arguments.data.resolve()
    check(python, data)
    print(json.dumps(measure(python, data, arguments.updates, arguments.threads)))


if __name__ == "__main__":
    main()
