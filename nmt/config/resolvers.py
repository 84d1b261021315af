"""What the configuration files compute: ${twice:…}, ${half:…}, ${default:…,…}, ${folder_name:…}, ${stage:}
and ${choices:}.

Importing registers it.
"""

import hashlib
import re

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from nmt.config.schema import CONFIGURATIONS
from nmt.config.schema import choices as choices_of

TAGGED = ("data", "size", "encoder", "decoder", "attention", "memory", "optimizer")
LONGEST_NAME = 150  # of a folder; file systems allow 255 bytes

OmegaConf.register_new_resolver("twice", lambda size: 2 * int(size), replace=True)
OmegaConf.register_new_resolver("half", lambda size: int(size) // 2, replace=True)
OmegaConf.register_new_resolver("default", lambda value, other: other if value is None else value, replace=True)


def folder_name(overrides: str) -> str:
    """A job's overrides as one folder: stable, and never too long or in several levels."""
    plain = re.sub(r"\\|\$(?=\\?\{)", "", overrides)  # without Hydra's escapes, and without what it would fill in
    name = plain.replace("/", ".") or "defaults"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=5).hexdigest()
    return f"{name.encode()[:LONGEST_NAME].decode(errors='ignore')}-{digest}"


OmegaConf.register_new_resolver("folder_name", folder_name, replace=True)


def stage(*, _root_: DictConfig) -> str:
    """What a run is in a chain of them."""
    return "finetuning" if starts_from_another(_root_) else "training"


def starts_from_another(config: DictConfig) -> bool:
    """Has the weights of another run to begin with; pretraining={} is this very run before."""
    return config.get("pretraining") is not None or bool(config.get("init_from"))


def choices() -> list[str]:
    """What was chosen for the parts of the model, and data and size: GROUP=CHOICE."""
    chosen = HydraConfig.get().runtime.choices
    return [f"{group}={chosen[group]}" for group in TAGGED if chosen.get(group) not in (None, "none")]


OmegaConf.register_new_resolver("stage", stage, replace=True)
OmegaConf.register_new_resolver("choices", choices, replace=True)


def _groups_with_choices() -> str:
    """For --help; files that begin with _ are what others build on, not choices."""
    folders = {path.parent for path in CONFIGURATIONS.rglob("[!_]*.yaml")} - {CONFIGURATIONS}
    names = sorted(folder.relative_to(CONFIGURATIONS).as_posix() for folder in folders)
    groups = [name for name in names if not name.startswith(("hydra", "experiment/"))]
    return "\n".join(f"{name}: {', '.join(choices_of(name))}" for name in groups)


OmegaConf.register_new_resolver("groups_with_choices", _groups_with_choices, replace=True)
