"""What a sweep of many jobs costs the program that starts them: python benchmarks/many_jobs.py [JOBS] [AT_ONCE]

Tiny runs, as short as they can be. Watched from outside, by /proc: the launcher's memory and open files over the jobs,
and what is left of the jobs' processes when it ends.
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
SECONDS = 1.0  # between two looks


def watched_sweep(folder: Path, jobs: int, at_once: int) -> dict:
    """What became of its jobs, and what the launcher held when a tenth of them were done and at the end."""
    arguments = ("-m", f"seed=range(1,{jobs + 1})", f"hydra.launcher.n_jobs={at_once}", f"hydra.sweep.dir={folder}")
    begun = time.monotonic()
    with open(folder.with_suffix(".log"), "w", encoding="utf-8") as output:
        sweep = subprocess.Popen(
            [sys.executable, ROOT / "train.py", *arguments, *TINY], stderr=output, stdout=output, cwd=ROOT
        )
        looks = []
        while sweep.poll() is None:
            looks.append(look(sweep.pid, folder))
            time.sleep(SECONDS)
    looks = [one for one in looks if one]
    early = next((one for one in looks if one["done"] >= max(1, jobs // 10)), looks[-1])
    states = Counter(json.loads(path.read_text())["status"] for path in folder.glob("*/summary.json"))
    return {
        "jobs": jobs, "at_once": at_once, "status": sweep.returncode, "states": dict(states),
        "seconds": round(time.monotonic() - begun, 1), "early": early, "late": looks[-1],
        "processes_left": len(processes_of(str(folder))),
    }  # fmt: skip


def look(process: int, folder: Path) -> dict | None:
    """Of the launcher: MiB of its own, and open files; and how many jobs are done."""
    try:
        place = Path(f"/proc/{process}")
        fields = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        memory = int(fields["VmRSS"].split()[0]) / 1024
        files = len(list((place / "fd").iterdir()))
    except (OSError, KeyError):
        return None  # it has just ended
    return {"done": len(list(folder.glob("*/checkpoints"))), "memory": round(memory, 1), "files": files}


def processes_of(text: str) -> list[int]:
    """Whose command line holds a text."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if text in (place / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="?", default=200)
    parser.add_argument("at_once", type=int, nargs="?", default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(watched_sweep(Path(place) / "sweep", options.jobs, options.at_once), indent=2))
