"""Which settings of a run are no longer what they were."""

from collections.abc import Mapping
from typing import Any

from nmt.run import leaves

LIMITS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time")  # a run may be gone on with for longer
OF_NO_WEIGHT = (  # what training comes to does not depend on them
    "ckpt_path", "resume", "repeats", "name", "sweep", "threads", "score_test", "score_unknown", "tabulated", "paper",
    "logger", "callbacks.last", "callbacks.progress", "callbacks.translations", "callbacks.throughput",
    "model.source_vocabulary_size", "model.target_vocabulary_size", "trainer.enable_progress_bar",
    "pretraining_folder", "hydra",
)  # fmt: skip

RENAMED = {"pytorch_lightning.callbacks.WeightAveraging": "nmt.training.averaging.MovingAverage"}  # by older runs


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Those that decide what training comes to, by name: before, and now."""
    before, now = leaves(before), leaves(now)
    before = {key: RENAMED.get(value, value) if isinstance(value, str) else value for key, value in before.items()}
    keys = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    return {key: (before.get(key), now.get(key)) for key in keys if not _is_within(key, OF_NO_WEIGHT)}


def _is_within(key: str, nodes: tuple[str, ...]) -> bool:
    return any(key == node or key.startswith(f"{node}.") for node in nodes)
