"""Run the rounds of a benchmark, and write their results with the machine, which the figures depend on."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from peers import choose_clock

sys.path.insert(0, str(Path(__file__).parent.parent))  # the scripts that import this module also import nmt
PACKAGES = ("torch", "pytorch-lightning", "numpy")


def run_rounds(options: argparse.Namespace, measure: Callable[[], dict], print_table: Callable[[list], None]) -> None:
    """Measure `--rounds` times, print each round as it ends and a table of all, and write them to `--output`."""
    rounds: list[dict] = []
    for number in range(options.rounds):
        rounds.append(measure())
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", file=sys.stderr)
    print_table(rounds)
    if options.output:
        write_results(Path(options.output), options, rounds=rounds)


def read_figures(command: list[str]) -> dict:
    """Run a command, and return the JSON of the last line that it prints."""
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def write_results(path: Path, options: argparse.Namespace, **figures: Any) -> None:
    """Write a JSON file of the figures, the machine and the options."""
    machine = describe_machine(getattr(options, "threads", None))
    results = {"machine": machine, "options": settings(options)} | figures
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were set, without file locations, because these differ between machines."""
    return {
        name: value
        for name, value in vars(options).items()
        if value is not None and not isinstance(value, Path) and not os.path.isabs(str(value))
    }


def describe_machine(threads: int | None) -> dict:
    """Return hardware, date, versions, and the speed of matrix products."""
    import torch

    from nmt.system.hardware import describe_hardware

    torch.set_num_threads(threads or torch.get_num_threads())
    return (
        describe_hardware()
        | {
            "date": time.strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "versions": {name: installed for name in PACKAGES if (installed := _find_version(name))},
            "products_gflops": measure_products(choose_clock(torch.get_num_threads())),
        }
        | _describe_gpu()
    )


def measure_products(clock: Callable[[], float]) -> dict[str, float]:
    """Return the GFLOP/s of large matrix products on the CPU, for each number type."""
    import torch

    return {kind: measure_gflops(getattr(torch, kind), "cpu", clock=clock) for kind in ("float32", "bfloat16")}


def measure_gflops(kind, device: str, turns: int = 6, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the GFLOP/s of a square product that is large enough for the device: the best of several turns."""
    import torch

    size = {"cpu": 1024, "cuda": 8192}[device]
    left, right = (torch.ones(size, size, dtype=kind, device=device) for _ in range(2))
    seconds = []
    for _ in range(turns):
        started = clock()
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - started)
        if device == "cpu" and sum(seconds) > 2:  # bfloat16 on a processor that only imitates it
            break
    return round(2 * size**3 / min(seconds) / 1e9, 1)


def _describe_gpu() -> dict:
    import torch

    if not torch.cuda.is_available():
        return {}
    rates = {kind: measure_gflops(getattr(torch, kind), "cuda") for kind in ("float32", "bfloat16")}
    return {"gpu": torch.cuda.get_device_name(), "gpu_products_gflops": rates}


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
