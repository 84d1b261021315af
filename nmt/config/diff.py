"""Compare the settings of runs, leaf by leaf."""

from collections.abc import Collection, Mapping
from typing import Any

LIMITS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time")  # a resumed run may train for longer
WITHOUT_EFFECT = (  # settings that do not change what a run learns
    "ckpt_path", "resume", "repeats", "name", "sweep", "threads", "score_test", "score_unknown", "table", "tabulated",
    "paper", "hparams_search", "graphs", "data.batches.multiple",
    "logger", "callbacks.last", "callbacks.progress", "callbacks.translations", "callbacks.throughput",
    "callbacks.learning_rate",
    "model.source_vocabulary_size", "model.target_vocabulary_size",
    "pretraining_folder", "hydra", "user_dir", "data.cache", "data.missing", "data.name",
    "callbacks.pruning.sweep_folder",
)  # fmt: skip
TEST = "data.test"  # the test set has no effect on training either
SEARCH = "search"  # nor has its search, unless validation refers to it
SEEDS = ("seed", "data.seed")


def flatten_settings(node: Any, key: str = "") -> dict[str, Any]:
    """Return nested settings by their dotted keys, {a: {b: 1}} as {a.b: 1}; lists and empty mappings are values."""
    if not (isinstance(node, Mapping) and node):
        return {key: node}
    branches = (flatten_settings(branch, f"{key}.{name}" if key else str(name)) for name, branch in node.items())
    return {leaf: value for branch in branches for leaf, value in branch.items()}


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings that affect training and differ, each with its value before and now."""
    before, now = flatten_settings(before), flatten_settings(now)
    keys = [key for key in before | now if before.get(key) != now.get(key)]
    is_search_of_validation = any("${search" in str(now[key]) for key in now if is_within(key, ("validation",)))
    ignored = (*WITHOUT_EFFECT, TEST, *([] if is_search_of_validation else [SEARCH]))
    return {key: (before.get(key), now.get(key)) for key in keys if not is_within(key, ignored)}


def override_key(override: str) -> str:
    """Return the key of an override: attention.coverage.size of ++attention.coverage.size=5."""
    return override.partition("=")[0].lstrip("+~")


def is_within(key: str, sections: Collection[str]) -> bool:
    """True if a key is one of these sections, or lies below one."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)
