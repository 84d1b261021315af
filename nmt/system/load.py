"""Measure how busy this machine is."""

import csv
import os
import shutil
import subprocess
from typing import Any

import psutil

QUERY = ("--query-gpu=name,utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits")
MEBIBYTE = 2**20


def measure_load() -> dict[str, Any]:
    """Return the load of the processor since the last call (in per cent), the used and total memory, and the GPUs."""
    memory = psutil.virtual_memory()
    return {
        "cpu": psutil.cpu_percent(),
        "cores": os.cpu_count(),
        "memory": [memory.total - memory.available, memory.total],
        "gpus": _measure_gpus(),
    }


def _measure_gpus() -> list[dict[str, Any]]:
    """Return the load of each GPU by nvidia-smi, because torch would take memory of the GPU to answer."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    try:
        done = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [_parse_gpu(row) for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True) if len(row) == 4]


def _parse_gpu(row: list[str]) -> dict[str, Any]:
    """Return a line of nvidia-smi by name; what it does not know, such as [N/A], is None."""
    name, *texts = row
    load, used, total = (float(text) if text.replace(".", "", 1).isdecimal() else None for text in texts)
    memory = None if used is None or total is None else [used * MEBIBYTE, total * MEBIBYTE]
    return {"name": name, "load": load, "memory": memory}
