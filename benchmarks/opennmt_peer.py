"""Speed and memory of OpenNMT-py 3.5.1 at the `small` comparison size, measured in an environment of its own.

    python benchmarks/opennmt_peer.py train --python VENV/bin/python --data FOLDER --updates 60 [--install]
    python benchmarks/opennmt_peer.py train --python VENV/bin/python --data FOLDER --updates 1440 --model MODEL
    python benchmarks/opennmt_peer.py search --python VENV/bin/python --data FOLDER --model MODEL --beams 1 5

FOLDER holds train.en and train.de, and test.en to search with, tokenised and lowercased. MODEL is the folder that the
trained model is kept in. Each prints one line of JSON; all else goes to standard error. This file is run by two
interpreters: by any Python as the script above, and by the peer's Python, which trains and searches. So nothing but
the standard library is imported at the top.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from peers import Peer, search_figures, second_half

VERSION = "3.5.1"
BATCH = 80

# Torch first, so that nothing after it chooses another build. OpenNMT without its own requirements, which hold torch
# back and name its server's; the rest is what it imports wherever it trains or translates.
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"OpenNMT-py=={VERSION}"],
    ["numpy<2", "configargparse", "pyonmttok>=1.37,<2", "pyyaml", "sacrebleu", "regex"],
    ["pyahocorasick", "fasttext-wheel", "rapidfuzz", "spacy"],
)
OPENNMT = Peer("opennmt_peer", "OpenNMT-py", "OpenNMT-py", VERSION, INSTALLATION)

# Its checkpoints hold its options as an object, which torch by default no longer reads.
READ_OWN_CHECKPOINTS = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}


def training_config(data: Path, folder: Path, updates: int, bucket: int, keep: bool) -> dict:
    """OpenNMT's configuration of the comparison model, which it trains on the CPU as no `gpu_ranks` are given."""
    never = 10**9
    return {
        "data": {"corpus": {"path_src": str(data / "train.en"), "path_tgt": str(data / "train.de"), "weight": 1}},
        "src_vocab": str(folder / "vocabulary.en"),
        "tgt_vocab": str(folder / "vocabulary.de"),
        "save_model": str(folder / "model"),
        "keep_checkpoint": 1 if keep else 0,
        "seed": 1,
        "train_steps": updates,
        "valid_steps": never,
        "save_checkpoint_steps": never,  # but at the end
        "batch_type": "sents",
        "batch_size": BATCH,
        "bucket_size": bucket,
        "num_workers": 0,  # batches take it milliseconds: processes that make them would be in the way of two threads
        "normalization": "tokens",
        "optim": "adam",
        "learning_rate": 0.001,
        "max_grad_norm": 1,
        "dropout": [0.2],
        "model_dtype": "fp32",
        "word_vec_size": 256,
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "layers": 1,
        "hidden_size": 512,  # of the decoder, and of both directions of the encoder together
        "global_attention": "mlp",
        "input_feed": 1,
    }


def search_config(data: Path, model: Path, output: Path) -> dict:
    return {"model": str(checkpoint(model)), "src": str(data / "test.en"), "output": str(output), "batch_size": BATCH}


def checkpoint(model: Path) -> Path:
    return model / "model.pt"


def count_lines(text: Path) -> int:
    with text.open("rb") as lines:
        return sum(1 for _ in lines)


def write_vocabulary(text: Path, vocabulary: Path) -> None:
    """The words that occur twice or more, one a line, the most frequent first."""
    with text.open(encoding="utf-8", newline="\n") as lines:
        counts = Counter(word for line in lines for word in line.strip().split(" "))
    # A no-break space that stands alone is a word to OpenNMT, but an empty line of its vocabulary.
    words = [word for word, count in counts.most_common() if count >= 2 and word.strip()]
    vocabulary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def train_in_peer(configuration: Path, threads: int, updates: Path) -> None:
    """Run OpenNMT's own training; write [seconds, target words so far] after each update to the file `updates`."""
    import torch
    from onmt.bin.train import _get_parser, train
    from onmt.trainer import Trainer

    torch.set_num_threads(threads)
    records: list[tuple[float, int]] = []

    def record(trainer, step, steps, learning_rate, statistics):
        records.append((time.perf_counter(), statistics.n_words))
        return statistics

    # OpenNMT reports after the optimiser's step; taking the report's place times every update and costs nothing.
    Trainer._maybe_report_training = record
    train(_get_parser().parse_args(["--config", str(configuration)]))
    updates.write_text(json.dumps(records))


def search_in_peer(configuration: Path, threads: int, beams: list[int], answers: Path) -> None:
    """OpenNMT's own translation of a file, with each beam; it is translated once before, to warm up."""
    import torch

    torch.set_num_threads(threads)
    engine = engine_in_peer(configuration)

    def translated(beam: int) -> tuple[float, list[str]]:
        engine.translator.beam_size = beam
        engine.translator.sample_from_topk = int(beam == 1)  # what it calls sampling from the best word: greedy search
        started = time.perf_counter()
        _, translations = engine.infer_file()
        return time.perf_counter() - started, [best[0] for best in translations]

    translated(1)
    found = {}
    for beam in beams:
        seconds, hypotheses = translated(beam)
        found[str(beam)] = search_figures(hypotheses, seconds)
        text = "".join(f"{hypothesis}\n" for hypothesis in hypotheses)
        (answers.parent / f"beam{beam}.txt").write_text(text, encoding="utf-8")
    answers.write_text(json.dumps(found))


def engine_in_peer(configuration: Path):
    """What OpenNMT's own command makes of its options."""
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    options = _get_parser().parse_args(["--config", str(configuration)])
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    return InferenceEnginePY(options)


def train(python: Path, data: Path, updates: int, bucket: int, threads: int, model: Path | None) -> dict:
    """Train in the peer's environment and read its clock and the operating system's account of its memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in ("en", "de"):
            write_vocabulary(data / f"train.{language}", folder / f"vocabulary.{language}")
        configuration, clock = folder / "config.json", folder / "updates.json"
        settings = training_config(data, folder, updates, bucket, keep=model is not None)
        configuration.write_text(json.dumps(settings))
        command = [str(python), __file__, "train-in-peer", str(configuration), str(threads), str(clock)]
        memory = OPENNMT.run(command, threads, folder / "log.txt")
        if model:
            model.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / f"model_step_{updates}.pt", checkpoint(model))
        return {"system": "opennmt", **second_half(clock, updates), "peak_memory_mib": memory}


def search(python: Path, data: Path, model: Path, beams: list[int], threads: int) -> dict:
    """Translate in the peer's environment; the translations stay beside the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration, answers = folder / "config.json", model / "search.json"
        configuration.write_text(json.dumps(search_config(data, model, folder / "translations.txt")))
        command = [str(python), __file__, "search-in-peer", str(configuration), str(threads)]
        command += [",".join(map(str, beams)), str(answers)]
        OPENNMT.run(command, threads, folder / "log.txt", **READ_OWN_CHECKPOINTS)
        return json.loads(answers.read_text())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, help_ in (("train", "measure training"), ("search", "measure the search of a kept model")):
        added = verbs.add_parser(verb, help=help_)
        added.add_argument("--python", type=Path, required=True, help="the Python of the environment with OpenNMT-py")
        added.add_argument("--data", type=Path, required=True, help="folder of the text")
        added.add_argument("--model", type=Path, required=verb == "search", help="folder of the kept model")
        added.add_argument("--threads", type=int, default=2)
        added.add_argument("--install", action="store_true", help="make the environment first")
    verbs.choices["train"].add_argument("--updates", type=int, default=60, help="the second half is measured")
    verbs.choices["train"].add_argument(
        "--bucket", type=int, help="sentences it makes batches of equal lengths from; by default the whole corpus"
    )
    verbs.choices["search"].add_argument("--beams", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    if options.verb == "train" and options.updates < 2:
        parser.error("--updates must be at least 2")
    return options


def main() -> None:
    if sys.argv[1:2] == ["train-in-peer"]:
        train_in_peer(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    if sys.argv[1:2] == ["search-in-peer"]:
        search_in_peer(Path(sys.argv[2]), int(sys.argv[3]), list(map(int, sys.argv[4].split(","))), Path(sys.argv[5]))
        return
    options = parse()
    python = options.python.absolute()  # not resolved: a virtual environment's Python is a link out of it
    data, model = options.data.resolve(), options.model.resolve() if options.model else None
    if options.install:
        OPENNMT.install(python)
    OPENNMT.stop_with_its_child()
    if options.verb == "train":
        OPENNMT.check(python, data, ("train.en", "train.de"))
        # OpenNMT's default, 262,144 sentences, would hold Multi30k nine times: 1 GiB more, for 4 % less padding.
        bucket = options.bucket or count_lines(data / "train.en")
        print(json.dumps(train(python, data, options.updates, bucket, options.threads, model)))
        return
    OPENNMT.check(python, data, ("test.en",))
    if not checkpoint(model).is_file():
        OPENNMT.fail(f"there is no {checkpoint(model)}; `train --model` makes it")
    print(json.dumps(search(python, data, model, options.beams, options.threads)))


if __name__ == "__main__":
    main()
