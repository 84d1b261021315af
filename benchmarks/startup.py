"""How long one waits: `train.py` to its first training step, `translate.py` to its first line, in new processes.

    python benchmarks/startup.py [--run RUN] [--rounds 5]       RUN: a trained run's folder; without one, training alone

The first start prepares the data and warms the machine's caches; it is not counted.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from machine import keep

ROOT = Path(__file__).parent.parent

# train.py as it is, told to say when the first batch reaches the model, and to stop there
TO_THE_FIRST_STEP = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
def first_step(*_):
    print("first step", flush=True)
    os._exit(0)
import nmt.training.lightning_module
nmt.training.lightning_module.Training.training_step = first_step
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="a trained run's folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--override", action="append", default=[], help="KEY=VALUE for train.py")
    parser.add_argument("--output", help="JSON file for every figure")
    options = parser.parse_args()
    waits = {
        "train.py, W&B offline": lambda: first_step(["logger=local", *options.override]),
        "train.py, logger=none": lambda: first_step(["logger=none", *options.override]),
    }
    if options.run:
        waits["translate.py"] = lambda: first_line(options.run)
    seconds = {name: [] for name in waits}
    for _ in range(options.rounds + 1):
        for name, wait in waits.items():
            seconds[name].append(wait())
    seconds = {name: of_all[1:] for name, of_all in seconds.items()}
    print("| from the command to | s, median | least | most |\n|---|---|---|---|")
    for name, of_all in seconds.items():
        print(f"| {name} | {median(of_all):.1f} | {min(of_all):.1f} | {max(of_all):.1f} |")
    if options.output:
        keep(Path(options.output), options, seconds=seconds)


def first_step(overrides: list[str]) -> float:
    """Of the default experiment."""
    with tempfile.TemporaryDirectory() as folder:
        script = [sys.executable, "-c", TO_THE_FIRST_STEP.replace("sys.argv[0]", repr(str(ROOT / "train.py")))]
        return until_said("first step", [*script, f"hydra.run.dir={folder}", *overrides])


def first_line(run: str) -> float:
    return until_said("", [sys.executable, str(ROOT / "translate.py"), f"run={run}"], given="a man\n")


def until_said(text: str, command: list[str], given: str = "") -> float:
    """Seconds until a line of the program's output begins so."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as program:
        program.stdin.write(given)
        program.stdin.close()
        for line in program.stdout:
            if line.startswith(text):
                break
        else:
            raise SystemExit(f"{' '.join(command[:2])}: ended without a word\n{program.stderr.read()}")
        seconds = time.perf_counter() - started
        program.kill()
    return seconds


if __name__ == "__main__":
    main()
