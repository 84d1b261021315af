"""Measure the start-up of `train.py` (to its first training step) and `translate.py` (to its first line).

    python benchmarks/startup.py [--run RUN] [--rounds 5]       RUN: folder of a trained run; default: train.py alone

Each start is a new process. The first start does not count, because it prepares the data and fills the caches. Beside
the time that passes stands the time of the process on the processor, which other programs lengthen little.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from machine import write_results

ROOT = Path(__file__).parent.parent

# run train.py, but print a line and exit when the first batch reaches the model
TO_THE_FIRST_STEP = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
def first_step(*_):
    print("first step", flush=True)
    os._exit(0)
from nmt.system.garbage_collection import pause_garbage_collection
with pause_garbage_collection():  # as in train.py
    import nmt.training.experiment
nmt.training.lightning_module.TrainingModule.training_step = first_step
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="folder of a trained run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--override", action="append", default=[], help="KEY=VALUE for train.py")
    parser.add_argument("--output", help="JSON file for all figures")
    options = parser.parse_args()
    starts = {
        "train.py, W&B offline": lambda: time_first_step(["logger=local", *options.override]),
        "train.py, logger=none": lambda: time_first_step(["logger=none", *options.override]),
    }
    if options.run:
        starts["translate.py"] = lambda: time_first_line(options.run)
    seconds = {name: [] for name in starts}
    for _ in range(options.rounds + 1):
        for name, start in starts.items():
            seconds[name].append(start())
    seconds = {name: times[1:] for name, times in seconds.items()}
    print("| from the command to | s, median | least | most | s on the processor, median |\n|---|---|---|---|---|")
    for name, times in seconds.items():
        passed, on_processor = zip(*times, strict=True)
        row = f"{median(passed):.1f} | {min(passed):.1f} | {max(passed):.1f} | {median(on_processor):.1f}"
        print(f"| {name} | {row} |")
    if options.output:
        write_results(Path(options.output), options, seconds=seconds)


def time_first_step(overrides: list[str]) -> tuple[float, float]:
    """Return the seconds until the default experiment starts its first step."""
    with tempfile.TemporaryDirectory() as folder:
        script = [sys.executable, "-c", TO_THE_FIRST_STEP.replace("sys.argv[0]", repr(str(ROOT / "train.py")))]
        return time_output("first step", [*script, f"hydra.run.dir={folder}", *overrides])


def time_first_line(run: str) -> tuple[float, float]:
    """Return the seconds until a run has translated a line."""
    return time_output("", [sys.executable, str(ROOT / "translate.py"), f"run={run}"], stdin="a man\n")


def time_output(prefix: str, command: list[str], stdin: str = "") -> tuple[float, float]:
    """Return the seconds until the program prints a line that begins with `prefix`: passed, and on the processor."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as program:
        program.stdin.write(stdin)
        program.stdin.close()
        for line in program.stdout:
            if line.startswith(prefix):
                break
        else:
            raise SystemExit(f"{' '.join(command[:2])}: ended without this output\n{program.stderr.read()}")
        seconds = time.perf_counter() - started, processor_seconds(program.pid)
        program.kill()
    return seconds


def processor_seconds(process: int) -> float:
    """Return the time of a process on the processor, as Linux counts it; also of one that has ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
