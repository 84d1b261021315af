"""What a run was made on."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def machine(device: "torch.device | None" = None) -> dict[str, Any]:
    """`device`: what the work is done on, where it is not the processor."""
    import torch  # which the workers that prepare data do without

    described = {"processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    on_gpu = device is not None and device.type == "cuda"
    return described | ({"gpu": torch.cuda.get_device_name(device)} if on_gpu else {})


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def said(described: Mapping[str, Any]) -> str:
    """In a few words: AMD EPYC, 2 threads; NVIDIA H200; of several ranks, 4 × NVIDIA H200."""
    threads = described["threads"]
    worker = described.get("gpu") or f"{described['processor']}, {threads} thread{'' if threads == 1 else 's'}"
    ranks = described.get("ranks", 1)
    return worker if ranks == 1 else f"{ranks} × {worker}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
