"""Measure time and memory of planning an epoch: its sentences, shuffled and cut into batches.

    python benchmarks/epoch_plan.py --pairs 1000000 100000000

Each size and kind of plan runs in a process of its own, on generated lengths of 1 to 50 words that lie on disk, as
those of a prepared corpus do. Pages of files do not count as memory, because the system may drop them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

PLANS = {
    "sentences, pool=20": {"unit": "sentences", "size": 80, "pool": 20},
    "sentences, pool=0": {"unit": "sentences", "size": 80},
    "tokens": {"unit": "tokens", "size": 4096},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--plan", choices=PLANS, help="only this one")
    options = parser.parse_args()
    if options.plan:
        print(json.dumps(measure(options.pairs[0], options.plan)))
        return
    print("| pairs | plan | batches | s on the processor | peak memory, MiB | of them before the plan |")
    print("|---|---|---|---|---|---|")
    for pairs in options.pairs:
        for plan in PLANS:
            command = [sys.executable, __file__, "--pairs", str(pairs), "--plan", plan]
            result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            print("| {pairs:,} | {plan} | {batches:,} | {seconds:.1f} | {peak:.0f} | {before:.0f} |".format(**result))


def measure(pairs: int, plan: str) -> dict:
    """Plan an epoch, and return the figures."""
    from nmt.data.batches import BatchLoader, BatchPlan
    from nmt.data.corpus_cache import EncodedText
    from nmt.data.parallel_text import Sides

    with tempfile.TemporaryDirectory() as folder:
        for seed, side in enumerate(Sides._fields):
            write_offsets(Path(folder) / f"train.{side}.offsets.npy", pairs, seed)
            (Path(folder) / f"train.{side}.numbers").touch()  # the plan reads no words
        text = Sides(*(EncodedText.open(Path(folder), f"train.{side}") for side in Sides._fields))
        loader = BatchLoader(text, BatchPlan(**PLANS[plan]), seed=1, shuffle=True, source_end=True, longest=50)
        with PeakMemory() as memory:
            began = time.process_time()  # because other programs lengthen it little, and the plan waits for nothing
            batches = len(loader)
            seconds = time.process_time() - began
    return {"pairs": pairs, "plan": plan, "batches": batches, "seconds": seconds} | memory.mebibytes()


def write_offsets(path: Path, pairs: int, seed: int, block: int = 1 << 20) -> None:
    """Write the offsets of generated sentences, in blocks."""
    import numpy as np

    random = np.random.default_rng(seed)
    offsets = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(pairs + 1,))
    for start in range(0, pairs, block):
        lengths = random.integers(1, 51, min(block, pairs - start))
        offsets[start + 1 : start + 1 + len(lengths)] = offsets[start] + np.cumsum(lengths)


class PeakMemory:
    """The peak of this process's own memory while a block of code runs, sampled a hundred times a second."""

    def __enter__(self) -> "PeakMemory":
        self.before = self.peak = anonymous_mebibytes()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.thread.join()

    def _sample(self) -> None:
        while not self.ended.wait(0.01):
            self.peak = max(self.peak, anonymous_mebibytes())

    def mebibytes(self) -> dict[str, float]:
        """Return the peak and the memory before."""
        return {"peak": self.peak, "before": self.before}


def anonymous_mebibytes() -> float:
    """Return the memory of this process that is not of a file."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
