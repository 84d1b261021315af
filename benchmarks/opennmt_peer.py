"""Measure speed and memory of OpenNMT-py 3.5.1 at the `small` comparison size, in an environment of its own.

    python benchmarks/opennmt_peer.py train --python VENV/bin/python --data FOLDER --updates 60 [--install]
    python benchmarks/opennmt_peer.py train --python VENV/bin/python --data FOLDER --updates 1440 --model MODEL
    python benchmarks/opennmt_peer.py search --python VENV/bin/python --data FOLDER --model MODEL --beams 1 5

FOLDER holds train.en and train.de, and test.en for `search`, tokenized and lowercased. MODEL is the folder for the
trained model. Each command prints one line of JSON; messages go to standard error. Two interpreters run this file: any
Python runs the script above, and the peer's Python trains and searches. So the top of the file imports only the
standard library.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from peers import Peer, choose_clock, measure_second_half, record_updates, search_figures

VERSION = "3.5.1"
BATCH = 80

# torch first, because a later package would choose another build. OpenNMT with --no-deps, because its requirements hold
# back torch and list packages of its server. Then the packages that its training and translation import.
INSTALLATION = (
    ["torch==2.13.0"],
    ["--no-deps", f"OpenNMT-py=={VERSION}"],
    ["numpy<2", "configargparse", "pyonmttok>=1.37,<2", "pyyaml", "sacrebleu", "regex"],
    ["pyahocorasick", "fasttext-wheel", "rapidfuzz", "spacy"],
)
OPENNMT = Peer("opennmt_peer", "OpenNMT-py", "OpenNMT-py", VERSION, INSTALLATION)

# because its checkpoints hold its options as an object, which torch refuses to read by default
ALLOW_CHECKPOINT_OBJECTS = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}


def training_config(data: Path, folder: Path, updates: int, bucket: int, keep: bool) -> dict:
    """Return OpenNMT's configuration of the comparison model; it trains on the CPU, because no `gpu_ranks` are set."""
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
        "save_checkpoint_steps": never,  # OpenNMT still saves the last one
        "batch_type": "sents",
        "batch_size": BATCH,
        "bucket_size": bucket,
        "num_workers": 0,  # 0, because a batch takes milliseconds, and more processes would compete with two threads
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
    """Return OpenNMT's configuration of a search."""
    return {
        "model": str(checkpoint_path(model)),
        "src": str(data / "test.en"),
        "output": str(output),
        "batch_size": BATCH,
    }


def checkpoint_path(model: Path) -> Path:
    return model / "model.pt"


def count_lines(text: Path) -> int:
    with text.open("rb") as lines:
        return sum(1 for _ in lines)


def write_vocabulary(text: Path, vocabulary: Path) -> None:
    """Write the words that occur at least twice, one a line, the most frequent first."""
    with text.open(encoding="utf-8", newline="\n") as lines:
        counts = Counter(word for line in lines for word in line.strip().split(" "))
    # skip a single no-break space, because OpenNMT reads it as a word in text, but as an empty line in a vocabulary
    words = [word for word, count in counts.most_common() if count >= 2 and word.strip()]
    vocabulary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def train_in_peer(configuration: Path, threads: int, updates: Path) -> None:
    """Run OpenNMT's own training, and write [seconds, target words so far] of each update to the file `updates`."""
    import torch
    from onmt.bin.train import _get_parser, train
    from onmt.trainer import Trainer

    torch.set_num_threads(threads)
    records = record_updates(Trainer, "n_words")
    train(_get_parser().parse_args(["--config", str(configuration)]))
    updates.write_text(json.dumps(records))


def search_in_peer(configuration: Path, threads: int, beams: list[int], answers: Path) -> None:
    """Translate a file with each beam by OpenNMT's own translation, after a warm-up with beam 1."""
    import torch

    torch.set_num_threads(threads)
    clock = choose_clock(threads)
    engine = load_engine(configuration)

    def translate(beam: int) -> tuple[float, list[str]]:
        engine.translator.beam_size = beam
        engine.translator.sample_from_topk = int(beam == 1)  # sampling from the best word, which is greedy search
        started = clock()
        _, translations = engine.infer_file()
        return clock() - started, [best[0] for best in translations]

    translate(1)
    figures = {}
    for beam in beams:
        seconds, hypotheses = translate(beam)
        figures[str(beam)] = search_figures(hypotheses, seconds)
        text = "".join(f"{hypothesis}\n" for hypothesis in hypotheses)
        (answers.parent / f"beam{beam}.txt").write_text(text, encoding="utf-8")
    answers.write_text(json.dumps(figures))


def load_engine(configuration: Path):
    """Return the inference engine that OpenNMT's own command builds from these options."""
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    options = _get_parser().parse_args(["--config", str(configuration)])
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    return InferenceEnginePY(options)


def measure_training(python: Path, data: Path, updates: int, bucket: int, threads: int, model: Path | None) -> dict:
    """Train in the peer's environment, and return its speed and peak memory; save the model to the folder `model`."""
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
            shutil.move(folder / f"model_step_{updates}.pt", checkpoint_path(model))
        return {"system": "opennmt", **measure_second_half(clock, updates), "peak_memory_mib": memory}


def measure_search(python: Path, data: Path, model: Path, beams: list[int], threads: int) -> dict:
    """Translate in the peer's environment, and write the translations to the folder of the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration, answers = folder / "config.json", model / "search.json"
        configuration.write_text(json.dumps(search_config(data, model, folder / "translations.txt")))
        command = [str(python), __file__, "search-in-peer", str(configuration), str(threads)]
        command += [",".join(map(str, beams)), str(answers)]
        OPENNMT.run(command, threads, folder / "log.txt", **ALLOW_CHECKPOINT_OBJECTS)
        return json.loads(answers.read_text())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, help_ in (("train", "measure training"), ("search", "measure the search of a trained model")):
        command = verbs.add_parser(verb, help=help_)
        command.add_argument("--python", type=Path, required=True, help="Python of the environment with OpenNMT-py")
        command.add_argument("--data", type=Path, required=True, help="folder of the text")
        command.add_argument("--model", type=Path, required=verb == "search", help="folder of the trained model")
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--install", action="store_true", help="create the environment first")
    verbs.choices["train"].add_argument(
        "--updates", type=int, default=60, help="updates to train; the second half is measured"
    )
    verbs.choices["train"].add_argument(
        "--bucket", type=int, help="sentences that it sorts by length into batches; default: the whole corpus"
    )
    verbs.choices["search"].add_argument("--beams", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    if options.verb == "train" and options.updates < 2:
        parser.error(f"--updates {options.updates}: must be at least 2")
    return options


def main() -> None:
    if sys.argv[1:2] == ["train-in-peer"]:
        train_in_peer(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    if sys.argv[1:2] == ["search-in-peer"]:
        search_in_peer(Path(sys.argv[2]), int(sys.argv[3]), list(map(int, sys.argv[4].split(","))), Path(sys.argv[5]))
        return
    options = parse()
    # not resolve(), because the Python of a virtual environment is a link out of it
    python = options.python.absolute()
    data, model = options.data.resolve(), options.model.resolve() if options.model else None
    if options.install:
        OPENNMT.install(python)
    OPENNMT.stop_child_on_sigterm()
    if options.verb == "train":
        OPENNMT.check(python, data, ("train.en", "train.de"))
        # not OpenNMT's default of 262,144 sentences, because it holds Multi30k nine times: 1 GiB more, 4 % less padding
        bucket = options.bucket or count_lines(data / "train.en")
        print(json.dumps(measure_training(python, data, options.updates, bucket, options.threads, model)))
        return
    OPENNMT.check(python, data, ("test.en",))
    if not checkpoint_path(model).is_file():
        OPENNMT.fail(f"--model {model}: has no {checkpoint_path(model).name}. Fix: train --model {model}")
    print(json.dumps(measure_search(python, data, model, options.beams, options.threads)))


if __name__ == "__main__":
    main()
