"""Settings of a run leaf by leaf, and which of them are no longer what they were."""

from collections.abc import Collection, Mapping
from typing import Any

LIMITS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time")  # a run may be gone on with for longer
OF_NO_WEIGHT = (  # what training comes to does not depend on them
    "ckpt_path", "resume", "repeats", "name", "sweep", "threads", "score_test", "score_unknown", "table", "tabulated",
    "paper", "hparams_search",
    "logger", "callbacks.last", "callbacks.progress", "callbacks.translations", "callbacks.throughput",
    "model.source_vocabulary_size", "model.target_vocabulary_size",
    "pretraining_folder", "hydra", "data.cache", "data.missing", "data.name", "callbacks.pruning.sweep_folder",
)  # fmt: skip

TEST = "data.test"  # nor on which of its test sets a run is scored
SEEDS = ("seed", "data.seed")
RENAMED = {  # what older runs call them
    "pytorch_lightning.callbacks.WeightAveraging": "nmt.training.weight_averaging.MovingAverage",
    "nmt.training.lr_schedule.constant": "nmt.training.lr_schedule.halving",
}


def leaves(node: Any, place: str = "") -> dict[str, Any]:
    """{a: {b: 1}} → {a.b: 1}; lists, and what is empty, are leaves. A class has the name that it has now."""
    if not (isinstance(node, Mapping) and node):
        return {place: RENAMED.get(node, node) if isinstance(node, str) else node}
    inner = (leaves(branch, f"{place}.{name}" if place else str(name)) for name, branch in node.items())
    return {key: leaf for found in inner for key, leaf in found.items()}


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that affect training and differ, by name: before, and now."""
    before, now = leaves(before), leaves(now)
    keys = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    return {key: (before.get(key), now.get(key)) for key in keys if not is_within(key, (*OF_NO_WEIGHT, TEST))}


def name_of(override: str) -> str:
    """++attention.coverage.size=5 → attention.coverage.size"""
    return override.partition("=")[0].lstrip("+~")


def is_within(key: str, nodes: Collection[str]) -> bool:
    """Whether a setting is one of these, or below one."""
    return any(key == node or key.startswith(f"{node}.") for node in nodes)
