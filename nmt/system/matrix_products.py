"""Choose the library of float32 matrix products on this processor.

`torch.set_float32_matmul_precision("medium")` sends float32 products to oneDNN. On some processors oneDNN is up to
twice as fast as the default library and as exact. On others it is slower, or it rounds to bfloat16. So both are timed
on the shapes of the model, and oneDNN is chosen only where it is faster and agrees with the default.
"""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from nmt.errors import ConfigurationError
from nmt.system.files import cache_folder, write_json
from nmt.system.hardware import describe_hardware
from nmt.system.locks import lock_file

Shape = tuple[int, int, int]  # rows, inputs, outputs
PRECISIONS = ("auto", "highest", "high", "medium")
ROWS = 64  # sentences of a batch, about
FILE = "matrix_products.json"
REPEATS = 7
LARGEST = 4  # shapes to time
MOST_OUTPUTS = 2000  # of a product that is timed, so that all take less than 0.3 s
LEAST_GAIN = 1.1
TOLERANCE = 1e-5  # of the largest value


def set_up_products(requested: str, earlier: str | None, model: nn.Module, device: torch.device) -> str:
    """Set the precision of float32 products, once the model is known, and return it.

    Args:
        requested: `matmul_precision`.
        earlier: The precision of the run that is resumed, which `auto` keeps.
        model: The model.
        device: The device of training.
    """
    precision = earlier if requested == "auto" and earlier else resolve_precision(requested, model, device)
    set_precision(precision)
    return precision


def set_precision(precision: str) -> None:
    """Set the precision of float32 products on the processor and on GPUs."""
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = precision != "highest"  # cuDNN's RNNs ask only this


def resolve_precision(requested: str, model: nn.Module, device: torch.device | str) -> str:
    """Return the precision to compute with: as requested, or for `auto` what is fastest among exact ones."""
    if requested not in PRECISIONS:
        raise ConfigurationError(f"matmul_precision={requested}: choose {', '.join(PRECISIONS)}")
    if requested != "auto":
        return requested
    if torch.device(device).type != "cpu" or not torch.backends.mkldnn.is_available():
        return "highest"
    shapes = {(ROWS, weight.shape[1], weight.shape[0]) for weight in model.parameters() if weight.dim() == 2}
    return _choose(shapes, cache_folder())


def _choose(shapes: Iterable[Shape], folder: Path) -> str:
    """Return `medium` where oneDNN's products are faster and as exact, else `highest`.

    The choice is stored for this machine, so that all jobs of a sweep make the same.
    """
    reduced = {(rows, inputs, min(outputs, MOST_OUTPUTS)) for rows, inputs, outputs in shapes}
    largest = sorted(reduced, key=lambda shape: (shape[1] * shape[2], shape))[-LARGEST:]
    key = json.dumps([describe_hardware(), torch.__version__, largest])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # in a folder without permission to write, choices are not stored
        return _time_both(largest)
    with lock_file(folder / f"{FILE}.lock", message=f"{FILE}: another process times matrix products; waiting for it"):
        choices = _read_choices(folder / FILE)
        if choices.get(key) not in ("highest", "medium"):
            choices[key] = _time_both(largest)
            with suppress(OSError):
                write_json(folder / FILE, choices)
    return choices[key]


def _read_choices(path: Path) -> dict[str, str]:
    try:
        choices = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return choices if isinstance(choices, dict) else {}


def _time_both(shapes: list[Shape]) -> str:
    seconds, before = {"highest": 0.0, "medium": 0.0}, torch.get_float32_matmul_precision()
    generator = torch.Generator().manual_seed(0)  # because the run's own generator must not change
    try:
        for rows, inputs, outputs in shapes:
            vectors = torch.randn(rows, inputs, generator=generator)
            weight = torch.randn(outputs, inputs, generator=generator)
            products, times = {}, {precision: [] for precision in seconds}
            for precision in [*seconds] * REPEATS:  # in turn, because the speed of a machine can drift
                torch.set_float32_matmul_precision(precision)
                begin = time.perf_counter()
                products[precision] = torch.nn.functional.linear(vectors, weight)
                times[precision].append(time.perf_counter() - begin)
            difference = (products["medium"] - products["highest"]).abs().max()
            if difference > TOLERANCE * products["highest"].abs().max():
                return "highest"
            for precision, measured in times.items():
                seconds[precision] += min(measured)
    finally:
        torch.set_float32_matmul_precision(before)
    return "medium" if seconds["highest"] > LEAST_GAIN * seconds["medium"] else "highest"
