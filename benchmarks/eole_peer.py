"""Measure training of eole 0.6.4, the successor of OpenNMT-py, at the `small` comparison size.

    python benchmarks/eole_peer.py --python VENV/bin/python --data FOLDER --updates 60 [--install]

FOLDER holds train.en and train.de, tokenized and lowercased. The command prints one line of JSON; messages go to
standard error. Two interpreters run this file: any Python runs the script above, and the peer's Python trains.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from opennmt_peer import BATCH, count_lines, write_vocabulary
from peers import Peer, measure_second_half, record_updates

VERSION = "0.6.4"

# torch first, because a later package would choose another build. eole with --no-deps, because it lists packages for
# GPUs and speech. Then the packages that its training imports.
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"eole=={VERSION}"],
    ["numpy>=2", "configargparse", "pyonmttok>=1.38.1,<2", "pyyaml", "sacrebleu", "pydantic", "rich", "tensorboard"],
    ["safetensors", "sentencepiece<=0.2.2", "subword-nmt", "six", "tokenizers", "huggingface_hub", "rapidfuzz"],
    ["pyahocorasick", "fasttext-wheel", "aiohttp", "requests", "uvicorn", "fastapi"],
)
EOLE = Peer("eole_peer", "eole", "eole", VERSION, INSTALLATION)


def training_config(data: Path, folder: Path, updates: int) -> dict:
    """Return eole's configuration of the comparison model; its decoder feeds the attentional vector back."""
    never = 10**9
    unit = {"rnn_type": "GRU", "layers": 1, "hidden_size": 512}  # 512: both directions of the encoder together
    return {
        "data": {"corpus": {"path_src": str(data / "train.en"), "path_tgt": str(data / "train.de"), "weight": 1}},
        "src_vocab": str(folder / "vocabulary.en"),
        "tgt_vocab": str(folder / "vocabulary.de"),
        "seed": 1,
        "model": {
            "architecture": "rnn",
            "hidden_size": 512,
            "embeddings": {"word_vec_size": 256},
            "encoder": {"encoder_type": "brnn", "src_word_vec_size": 256, **unit},
            "decoder": {"decoder_type": "rnn", "tgt_word_vec_size": 256, "global_attention": "mlp", **unit},
        },
        "training": {
            "model_path": str(folder / "model"),
            "train_steps": updates,
            "valid_steps": never,
            "save_checkpoint_steps": never,
            "batch_type": "sents",
            "batch_size": BATCH,
            "bucket_size": count_lines(data / "train.en"),
            "num_workers": 0,  # because a batch takes milliseconds, and more processes would compete with two threads
            "normalization": "tokens",
            "optim": "adam",
            "learning_rate": 0.001,
            "max_grad_norm": 1,
            "dropout": [0.2],
            "compute_dtype": "fp32",
            "world_size": 1,
        },
    }


def train_in_peer(configuration: Path, threads: int, updates: Path) -> None:
    """Run eole's own training, and write [seconds, target words so far] of each update to the file `updates`."""
    import torch
    from eole.bin.run.train import train
    from eole.config.run import TrainConfig
    from eole.trainer import Trainer

    torch.set_num_threads(threads)
    records = record_updates(Trainer, "n_tokens")
    train(TrainConfig(**json.loads(configuration.read_text())))
    updates.write_text(json.dumps(records))


def measure_training(python: Path, data: Path, updates: int, threads: int) -> dict:
    """Train in the peer's environment, and return its speed and peak memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in ("en", "de"):
            write_vocabulary(data / f"train.{language}", folder / f"vocabulary.{language}")
        configuration, clock = folder / "config.json", folder / "updates.json"
        configuration.write_text(json.dumps(training_config(data, folder, updates)))
        command = [str(python), __file__, "train-in-peer", str(configuration), str(threads), str(clock)]
        memory = EOLE.run(command, threads, folder / "log.txt")
        return {"system": "eole", **measure_second_half(clock, updates), "peak_memory_mib": memory}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="Python of the environment with eole")
    parser.add_argument("--data", type=Path, required=True, help="folder of the text")
    parser.add_argument("--updates", type=int, default=60, help="updates to train; the second half is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--install", action="store_true", help="create the environment first")
    options = parser.parse_args()
    if options.updates < 2:
        parser.error(f"--updates {options.updates}: must be at least 2")
    return options


def main() -> None:
    if sys.argv[1:2] == ["train-in-peer"]:
        train_in_peer(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    options = parse()
    # not resolve(), because the Python of a virtual environment is a link out of it
    python, data = options.python.absolute(), options.data.resolve()
    if options.install:
        EOLE.install(python)
    EOLE.stop_child_on_sigterm()
    EOLE.check(python, data, ("train.en", "train.de"))
    print(json.dumps(measure_training(python, data, options.updates, options.threads)))


if __name__ == "__main__":
    main()
