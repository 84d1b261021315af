"""What figures were measured on: they mean nothing without it."""

import argparse
import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the scripts that import this: nmt is where they lie
PACKAGES = ("torch", "pytorch-lightning", "numpy")


def keep(path: Path, options: argparse.Namespace, **figures: Any) -> None:
    kept = {"machine": described(getattr(options, "threads", None)), "options": settings(options)} | figures
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for; where files lie on this machine is nobody's."""
    return {
        name: value
        for name, value in vars(options).items()
        if value is not None and not isinstance(value, Path) and not os.path.isabs(str(value))
    }


def described(threads: int | None) -> dict:
    import torch

    from nmt.system.hardware import describe_hardware

    torch.set_num_threads(threads or torch.get_num_threads())
    return (
        describe_hardware()
        | {
            "date": time.strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "versions": {name: found for name in PACKAGES if (found := _version(name))},
            "products_gflops": products(),
        }
        | _gpu()
    )


def products() -> dict[str, float]:
    """The machine's own rates."""
    import torch

    return {kind: rate(getattr(torch, kind), "cpu") for kind in ("float32", "bfloat16")}


def rate(kind, device: str, turns: int = 6) -> float:
    """GFLOP/s of square products, large enough for the device, the best of several."""
    import torch

    size = {"cpu": 1024, "cuda": 8192}[device]
    left, right = (torch.ones(size, size, dtype=kind, device=device) for _ in range(2))
    seconds = []
    for _ in range(turns):
        started = time.perf_counter()
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return round(2 * size**3 / min(seconds) / 1e9, 1)


def _gpu() -> dict:
    import torch

    if not torch.cuda.is_available():
        return {}
    rates = {kind: rate(getattr(torch, kind), "cuda") for kind in ("float32", "bfloat16")}
    return {"gpu": torch.cuda.get_device_name(), "gpu_products_gflops": rates}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
