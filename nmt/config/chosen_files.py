"""Find the chosen configuration file that sets a key."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from nmt.config.diff import flatten_settings, is_within


def name_file(key: str) -> str:
    """Return " in FILE" for the chosen configuration file that sets a key; an empty text if none does."""
    if not HydraConfig.initialized():
        return ""
    runtime = HydraConfig.get().runtime
    folders = [Path(source.path) for source in runtime.config_sources if source.schema == "file"]
    chosen = [
        (group, folder / group / f"{choice}.yaml") for group, choice in runtime.choices.items() for folder in folders
    ]
    return next((f" in {file}" for group, file in chosen if file.is_file() and _sets(file, group, key)), "")


def _sets(file: Path, group: str, key: str) -> bool:
    is_global = "# @package _global_" in file.read_text(encoding="utf-8")
    name = key if is_global else key.removeprefix(f"{group.replace('/', '.')}.")
    return any(is_within(leaf, (name,)) for leaf in flatten_settings(OmegaConf.to_container(OmegaConf.load(file))))
