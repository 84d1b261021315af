"""Measure our training and that of other systems in turn: target words per second, memory, time outside the model.

    python benchmarks/train_throughput.py                             the `small` comparison size on Multi30k (NMT_DATA)
    python benchmarks/train_throughput.py --size paper --data random  RNNsearch's sizes on random words
    python benchmarks/train_throughput.py --joeynmt VENV/bin/python --opennmt VENV/bin/python --eole VENV/bin/python
                                                                      also other systems (see README.md)
    python benchmarks/train_throughput.py --override attention=dot …  another model of ours
    python benchmarks/train_throughput.py --mechanism attention=coverage --mechanism memory=buffer …
                                                                      the cost of mechanisms over plain attention

In each of `--rounds` rounds the systems run one after the other, each in a process of its own, because the speed of a
machine can drift. Ratios compare systems of the same round. The warm-up is the first third of our updates, and half of
the updates of other systems.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

from machine import read_figures, run_rounds

BATCH = 80
LARGEST_DIFFERENCE = 0.15  # of a peer's words per update, because it draws other batches of the same text
# the comparison model, which the hand-written baseline and the peers train too
MODEL = (
    "decoder=bahdanau",
    "decoder.readout._target_=nmt.model.readout.DeepOutput",
    "~decoder.readout.maxout_size",
    "size.readout=512",
    f"data.batches.size={BATCH}",
)
PEERS = {"joeynmt": ("joeynmt_peer.py",), "opennmt": ("opennmt_peer.py", "train"), "eole": ("eole_peer.py",)}
RANDOM_SENTENCES, RANDOM_LENGTHS = 8000, (6, 20)


def main() -> None:
    options = parse()
    if options.write_text:
        write_text(options.write_text, options)
        return
    if options.system:
        print(json.dumps({"ours": measure_ours, "hoisted": measure_hoisted}[options.system](options)))
        return
    systems = ["ours", *options.mechanism] if options.mechanism else ["hoisted", "ours"]
    systems += [peer for peer in PEERS if getattr(options, peer)]
    run_rounds(options, lambda: {system: measure(system, options) for system in systems}, print_table)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=["tiny", "small", "paper"])
    parser.add_argument("--data", default="multi30k", choices=["multi30k", "random"])
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--joeynmt", help="Python of an environment with Joey NMT")
    parser.add_argument("--opennmt", help="Python of an environment with OpenNMT-py")
    parser.add_argument("--eole", help="Python of an environment with eole")
    parser.add_argument("--override", action="append", default=[], help="KEY=VALUE for our model")
    parser.add_argument(
        "--mechanism",
        action="append",
        default=[],
        help="'KEY=VALUE …': settings of another model of ours to measure too",
    )
    parser.add_argument("--output", help="JSON file for all figures")
    parser.add_argument("--write-text", type=Path, metavar="FOLDER", help="only write the text that the peers read")
    parser.add_argument("--system", choices=["ours", "hoisted"], help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(system: str, options: argparse.Namespace) -> dict:
    """Measure one system in a process of its own."""
    if system in PEERS:
        return measure_peer(system, options)
    kind = "hoisted" if system == "hoisted" else "ours"
    command = [sys.executable, __file__, "--system", kind, "--size", options.size, "--data", options.data]
    command += ["--updates", str(options.updates), "--threads", str(options.threads), "--device", options.device]
    overrides = [*options.override, *(system.split() if system in options.mechanism else ())]
    command += [f"--override={override}" for override in overrides]
    return read_figures(command)


def measure_peer(system: str, options: argparse.Namespace) -> dict:
    """Measure the training of a peer on the same text."""
    script, *verb = PEERS[system]
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder), options)
        command = [sys.executable, str(Path(__file__).parent / script), *verb, "--python", getattr(options, system)]
        command += ["--data", folder, "--updates", str(options.updates), "--threads", str(options.threads)]
        if system == "joeynmt":
            command += ["--size", options.size, "--device", options.device]
        result = read_figures(command)
        check_words(result, (Path(folder) / "train.de").read_text(encoding="utf-8").splitlines())
    return result


def check_words(result: dict, lines: list[str]) -> None:
    """Refuse the figure of a peer that did not train on the words of our text, end symbols included."""
    expected = BATCH * (sum(len(line.split()) for line in lines) / len(lines) + 1)
    if abs(result["words_per_update"] / expected - 1) > LARGEST_DIFFERENCE:
        sys.exit(
            f"{result['system']}: trained on {result['words_per_update']:.0f} words an update, and our text has "
            f"{expected:.0f}: its figure cannot be compared"
        )


def measure_ours(options: argparse.Namespace) -> dict:
    """Train as `train.py` does, with Lightning, callbacks and CSV logging, but without validation."""
    import pytorch_lightning

    from nmt.runs.trained_model import with_vocabulary_sizes
    from nmt.system.matrix_products import set_up_products
    from nmt.training.experiment import make_module, make_trainer
    from nmt.training.process_setup import set_up_process

    config, data = compose(options)
    set_up_process(config)
    with tempfile.TemporaryDirectory() as folder:
        corpus = data.prepare()
        sizes = (len(language.vocabulary) for language in corpus.languages)
        module = make_module(with_vocabulary_sizes(config, *sizes), corpus, Path(folder))
        watch = make_watch_class()(warm_up=options.updates // 3, device=options.device)
        trainer = make_trainer(config, Path(folder), [pytorch_lightning.loggers.CSVLogger(folder)])
        trainer.callbacks.append(watch)
        set_up_products(config.matmul_precision, None, module.model, trainer.strategy.root_device)
        trainer.fit(module, data)
    parameters = sum(p.numel() for p in module.parameters())
    return {"system": "ours", "parameters": parameters} | settings_in_force(trainer) | watch.figures()


def settings_in_force(trainer) -> dict:
    """Return what decides speed, as it is set in this process, not as it was asked for."""
    import torch

    return {
        "threads": torch.get_num_threads(),
        "precision": trainer.precision,
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def measure_hoisted(options: argparse.Namespace) -> dict:
    """Train the hand-written baseline on the same batches."""
    import torch
    from hoisted import RNNSEARCH, HoistedBaseline, train_steps

    config, data = compose(options)
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    sizes = {"small": {"readout": 512}, "paper": RNNSEARCH, "tiny": {"embedding": 24, "hidden": 32, "attention": 24}}
    words = (config.model.source_vocabulary_size, config.model.target_vocabulary_size)
    model = HoistedBaseline(*words, **sizes[options.size])
    batches = [pad(batch) for batch, _ in zip(data.train_dataloader(), range(options.updates), strict=False)]
    if options.device == "cuda":
        batches = [(source.cuda(), lengths, before.cuda(), after.cuda()) for source, lengths, before, after in batches]
    with torch.autocast(options.device, torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed"):
        rate, _ = train_steps(batches, options.updates, model=model.to(options.device))
    return {
        "system": "hoisted",
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens_per_second": rate,
        "peak_memory_mib": peak_memory(options.device),
    }


def pad(batch) -> tuple:
    """Return (source, lengths, target input, target output), as the baseline reads them."""
    import torch

    target = torch.zeros(batch.target_input.numel(), dtype=torch.long)
    target[batch.target_index] = batch.target_words
    return batch.source, batch.source_lengths, batch.target_input, target.view_as(batch.target_input)


def compose(options: argparse.Namespace) -> tuple:
    """Return the configuration of our model, and the data of all systems."""
    import hydra

    import nmt.config.resolvers  # noqa: F401, because the configuration uses its resolvers
    from nmt.config.installation import CONF_DIR

    trainer = {"cpu": "cpu", "cuda": "gpu"}[options.device]
    overrides = [
        f"size={options.size}",
        f"trainer={trainer}",
        f"trainer.max_steps={options.updates}",
        f"threads={options.threads}",
        "trainer.limit_val_batches=0",
    ]
    overrides += [
        "~callbacks.checkpoint",
        "~callbacks.last",
        "~callbacks.early_stopping",
        "+trainer.enable_checkpointing=false",
    ]
    model = ("decoder=bahdanau", "dropout=0.0") if options.size == "paper" else MODEL
    with hydra.initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = hydra.compose("config", overrides=["data=multi30k", *model, *overrides, *options.override])
    data = hydra.utils.instantiate(config.data)
    if options.data == "random":
        data.prepared = RandomCorpus(30_000 if options.size == "paper" else 8_000)
    words = [len(language.vocabulary) for language in data.prepare().languages]
    config.model.source_vocabulary_size, config.model.target_vocabulary_size = words
    return config, data


class Words:
    """A stand-in for a vocabulary."""

    def __len__(self) -> int:
        return self.count

    def to_json(self) -> str:
        return ""


class RandomCorpus:
    """A stand-in for a prepared corpus: random words, in sentences as long as image captions."""

    def __init__(self, words: int):
        import numpy as np

        from nmt.data.corpus_cache import EncodedText
        from nmt.data.parallel_text import Sides

        random = np.random.default_rng(1)
        lengths = random.integers(*RANDOM_LENGTHS, RANDOM_SENTENCES)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        side = EncodedText(random.integers(4, words, lengths.sum()).astype(np.int32), offsets)
        self.text = Sides(side, side)
        vocabulary = Words()
        vocabulary.count = words
        self.languages = Sides(*[type("Language", (), {"vocabulary": vocabulary})] * 2)

    def split(self, name: str):
        return self.text


def make_watch_class():
    """Return the class of a callback; it is defined here, because Lightning is imported only where it is needed."""
    import torch
    from pytorch_lightning import Callback

    class Watch(Callback):
        """Measure the time of batches, and of the forward and backward passes in them.

        On a GPU the passes are only launched there, so their time says how long this process was busy.
        """

        def __init__(self, warm_up: int, device: str):
            self.warm_up, self.device = warm_up, device
            self.ended = time.perf_counter()

        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            self.entered = time.perf_counter()
            if trainer.global_step <= self.warm_up:  # not batch_idx, which begins again in each epoch
                self.began, self.words, self.inside, self.between = self.entered, 0, 0.0, 0.0
            else:
                self.between += self.entered - self.ended

        def on_after_backward(self, trainer, module):
            self.inside += time.perf_counter() - self.entered

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            self.words += batch.global_words
            self.ended = time.perf_counter()

        def on_train_end(self, trainer, module):
            if self.device == "cuda":
                torch.cuda.synchronize()
                self.ended = time.perf_counter()

        def figures(self) -> dict:
            seconds = self.ended - self.began
            return {
                "tokens_per_second": self.words / seconds,
                "outside_forward_backward": 1 - self.inside / seconds,
                "between_batches": self.between / seconds,
                "peak_memory_mib": peak_memory(self.device),
            }

    return Watch


def peak_memory(device: str) -> int:
    """Return the peak memory in MiB: of the GPU, or of this process."""
    import torch

    if device == "cuda":
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def write_text(folder: Path, options: argparse.Namespace) -> None:
    """Write the text that the peers read: preprocessed as for our model, or random words."""
    folder.mkdir(parents=True, exist_ok=True)
    _, data = compose(options)
    texts = random_lines(data.prepared) if options.data == "random" else preprocessed_lines(data)
    for name, lines in texts:
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{line[side]}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def random_lines(corpus: "RandomCorpus") -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each split with its pairs of random words."""
    source = corpus.text.source
    sentences = [source.ids[start:end] for start, end in pairwise(source.offsets)]
    lines = [" ".join(f"w{number}" for number in sentence) for sentence in sentences]
    for name, count in (("train", None), ("valid", 10), ("test", 10)):
        yield name, [(line, line) for line in lines[:count]]


def preprocessed_lines(data) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each split with its preprocessed pairs."""
    from nmt.data.preprocess_pool import PreprocessPool

    files = {"train": data.files["train"], "valid": data.files["valid"], "test": data.files[f"tests.{data.test}"]}
    for name, pair in files.items():
        with PreprocessPool(data.preprocessing) as workers:
            yield name, list(map(tuple, workers.preprocess(data.reader(**pair))))


def print_table(rounds: list[dict]) -> None:
    """Print medians over the rounds, of the ratios too."""
    print("| system | tokens/s | ours / it | peak memory, MiB | outside forward and backward | between batches |")
    print("|---|---|---|---|---|---|")
    for system in rounds[0]:
        results = [turn[system] for turn in rounds]
        rate = median(result["tokens_per_second"] for result in results)
        ratio = median(turn["ours"]["tokens_per_second"] / turn[system]["tokens_per_second"] for turn in rounds)
        shares = ("outside_forward_backward", "between_batches")
        lost = [f"{100 * median(r[share] for r in results):.1f} %" if share in results[0] else "–" for share in shares]
        memory = max(result["peak_memory_mib"] for result in results)
        print(f"| {system} | {rate:,.0f} | {ratio:.2f} | {memory} | {' | '.join(lost)} |")


if __name__ == "__main__":
    main()
