"""Describe the hardware that a run used."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def describe_hardware(device: "torch.device | None" = None) -> dict[str, Any]:
    """Return processor, cores and threads, and the GPU if `device` is one."""
    import torch  # only here, because the processes that preprocess data do without

    description = {"processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    is_gpu = device is not None and device.type == "cuda"
    return description | ({"gpu": torch.cuda.get_device_name(device)} if is_gpu else {})


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware_label(description: Mapping[str, Any]) -> str:
    """Return a short label: AMD EPYC, 2 threads; NVIDIA H200; 4 × NVIDIA H200."""
    threads, ranks = description["threads"], description.get("ranks", 1)
    processor = f"{description['processor']}, {threads} thread{'' if threads == 1 else 's'}"
    label = description.get("gpu") or processor
    return label if ranks == 1 else f"{ranks} × {label}"


def has_bfloat16_products() -> bool:
    """Return whether the processor multiplies bfloat16 matrices; True where Linux does not say."""
    flags = _read_processor("flags")
    return flags is None or bool({"avx512_bf16", "amx_bf16"} & set(flags.split()))


def has_exact_int8_sums() -> bool:
    """Return whether the processor adds products of 8 bits in 32 bits; others add pairs of them in 16 bits first."""
    return "avx512_vnni" in (_read_processor("flags") or "").split()


def _processor() -> str:
    return _read_processor("model name") or platform.processor() or platform.machine()


def _read_processor(key: str) -> str | None:
    """Return what Linux says of the first core, or None."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)
