"""Measure speed and memory of preparing a corpus; the memory must not grow with the corpus.

    python benchmarks/prepare_throughput.py --pairs 200000 4500000        generated words, split at spaces
    python benchmarks/prepare_throughput.py --pairs 50000 --tokenizer moses --normalize

Each size runs in a process of its own. The words follow Zipf's law; a sentence has 12 on average.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

BLOCK = 50_000  # sentences that are written at once
TYPES = 200_000  # different words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[200_000])
    parser.add_argument("--tokenizer", default="none")
    parser.add_argument("--normalize", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.pairs[0], options.tokenizer, options.normalize)))
        return
    print("| pairs | pairs/s | cores kept busy | peak memory of the main process, MiB | of a worker, MiB |")
    print("|---|---|---|---|---|")
    for pairs in options.pairs:
        command = [sys.executable, __file__, "--one", "--pairs", str(pairs), "--tokenizer", options.tokenizer]
        command += ["--normalize"] * options.normalize
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        print("| {pairs:,} | {rate:,.0f} | {cores:.2f} | {memory} | {worker} |".format(**result), flush=True)


def measure(pairs: int, tokenizer: str, normalize: bool) -> dict:
    """Prepare a generated corpus, and return the figures."""
    from nmt.data.corpus_cache import prepare
    from nmt.data.parallel_text import FilePairs, Sides
    from nmt.data.preprocessing import Preprocessing

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split, count in (("train", pairs), ("valid", 1000)):
            write_corpus(folder / split, count)
        files = {split: FilePairs(f"{folder}/{split}.src", f"{folder}/{split}.tgt") for split in ("train", "valid")}
        side = Preprocessing(language="en", normalize=normalize, tokenizer=tokenizer, lowercase=False)
        began, cpu = time.perf_counter(), cpu_seconds()
        settings = {"kind": "words", "size": 30000, "minimum_count": 1, "joint": False}
        prepare(folder / "cache", **files, tests={}, preprocessing=Sides(side, side), vocabulary=settings)
        seconds = time.perf_counter() - began
        cores = (cpu_seconds() - cpu) / seconds
    memory, worker = (
        resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {"pairs": pairs, "rate": pairs / seconds, "cores": cores, "memory": memory, "worker": worker}


def cpu_seconds() -> float:
    """Return the CPU time of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write_corpus(stem: Path, count: int) -> None:
    """Write both sides of a corpus, block by block."""
    import numpy as np

    words = np.array([f"w{number:x}" for number in range(TYPES)])
    for side in ("src", "tgt"):
        random = np.random.default_rng([count, side == "src"])
        with open(f"{stem}.{side}", "w") as stream:
            for start in range(0, count, BLOCK):
                lengths = random.integers(4, 21, min(BLOCK, count - start))
                drawn = words[(random.zipf(1.2, lengths.sum()) - 1) % TYPES]
                for sentence in np.split(drawn, np.cumsum(lengths)[:-1]):
                    stream.write(" ".join(sentence) + "\n")


if __name__ == "__main__":
    main()
