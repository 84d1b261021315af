"""Measure the cost of a sweep of many jobs for its launcher.

    python benchmarks/many_jobs.py [JOBS] [AT_ONCE]

The jobs are tiny runs of two steps. /proc gives the memory and open files of the launcher during the sweep, and the
processes that still run after it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TINY = ("size=tiny", "logger=none", "data.train.count=100", "data.valid.count=10", "trainer.max_steps=2")
SECONDS = 1.0  # between two samples


def watched_sweep(folder: Path, jobs: int, at_once: int) -> dict:
    """Run a sweep; return the status of its jobs, and two samples: after a tenth of the jobs, and at the end."""
    arguments = ("-m", f"seed=range(1,{jobs + 1})", f"hydra.launcher.n_jobs={at_once}", f"hydra.sweep.dir={folder}")
    started = time.monotonic()
    with open(folder.with_suffix(".log"), "w", encoding="utf-8") as output:
        sweep = subprocess.Popen(
            [sys.executable, ROOT / "train.py", *arguments, *TINY], stderr=output, stdout=output, cwd=ROOT
        )
        samples = []
        while sweep.poll() is None:
            samples.append(sample(sweep.pid, folder))
            time.sleep(SECONDS)
    samples = [point for point in samples if point]
    early = next((point for point in samples if point["done"] >= max(1, jobs // 10)), samples[-1])
    states = Counter(json.loads(path.read_text())["status"] for path in folder.glob("*/summary.json"))
    return {
        "jobs": jobs, "at_once": at_once, "status": sweep.returncode, "states": dict(states),
        "seconds": round(time.monotonic() - started, 1), "early": early, "late": samples[-1],
        "processes_left": len(find_processes(str(folder))),
    }  # fmt: skip


def sample(process: int, folder: Path) -> dict | None:
    """Return the memory (MiB) and open files of the launcher, and the number of jobs done; None if it has ended."""
    try:
        info = Path(f"/proc/{process}")
        fields = dict(line.split(":", 1) for line in (info / "status").read_text().splitlines())
        memory = int(fields["VmRSS"].split()[0]) / 1024
        files = len(list((info / "fd").iterdir()))
    except (OSError, KeyError):
        return None
    return {"done": len(list(folder.glob("*/checkpoints"))), "memory": round(memory, 1), "files": files}


def find_processes(text: str) -> list[int]:
    """Return the processes whose command line contains `text`."""
    processes = []
    for info in Path("/proc").glob("[0-9]*"):
        try:
            if text in (info / "cmdline").read_bytes().decode(errors="replace"):
                processes.append(int(info.name))
        except OSError:
            continue
    return processes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="?", default=200)
    parser.add_argument("at_once", type=int, nargs="?", default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(watched_sweep(Path(folder) / "sweep", options.jobs, options.at_once), indent=2))
