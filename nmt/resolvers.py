"""What the configuration files compute: ${twice:…}, ${half:…}, ${default:…,…}, ${folder_name:…}, ${stage:},
${choices:}, ${sweep_of:} and ${run_id:}.

Importing registers it.
"""

import hashlib
import json
import re
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from nmt.folder import SUMMARY, SWEEP

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


def sweep_of() -> str | None:
    """The name of the sweep a run is a job of."""
    folder = Path(HydraConfig.get().runtime.output_dir).parent
    return folder.name if (folder / SWEEP).is_file() else None


def run_id() -> str:
    """The same whenever a run goes on, wherever its folder lies by then, and another where it is begun anew."""
    folder = HydraConfig.get().runtime.output_dir
    try:
        return json.loads((Path(folder) / SUMMARY).read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, LookupError, TypeError):  # of another rank, which logs nothing
        return hashlib.blake2b(folder.encode(), digest_size=6).hexdigest()


OmegaConf.register_new_resolver("stage", stage, replace=True)
OmegaConf.register_new_resolver("choices", choices, replace=True)
OmegaConf.register_new_resolver("sweep_of", sweep_of, replace=True)
OmegaConf.register_new_resolver("run_id", run_id, replace=True)
