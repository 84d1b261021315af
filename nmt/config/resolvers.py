"""OmegaConf resolvers of the configuration files, such as ${twice:…}; importing this module registers them.

A function here has the name of its resolver. The configuration data/tests=open is registered, too, and files are read
in C from here on.
"""

import hashlib
import re
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from nmt.config.installation import name_command
from nmt.config.key_list import describe_settings
from nmt.config.omegaconf_internals import parse_yaml_in_c
from nmt.config.schema import list_choices
from nmt.config.user_dir import list_conf_dirs

TAG_GROUPS = ("data", "size", "encoder", "decoder", "attention", "memory", "optimizer")
MAX_NAME_BYTES = 150  # of a folder; file systems allow 255


def twice(size: Any) -> int:
    """Return twice a size."""
    return 2 * int(size)


def half(size: Any) -> int:
    """Return half a size, rounded down."""
    return int(size) // 2


def default(value: Any, other: Any) -> Any:
    """Return a value, or the other one if it is null or empty."""
    return other if value in (None, "") else value


def folder_name(overrides: str) -> str:
    """Return a stable folder name for a job's overrides, without / and not too long.

    A name that is too long begins with what has no value, then with the shortest settings, and ends with a digest.
    """
    plain = re.sub(r"\\|\$(?=\\?\{)", "", overrides)  # without Hydra's escapes, and without its references
    name = plain.replace("/", ".") or "defaults"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=5).hexdigest()
    name = ",".join(sorted(name.split(","), key=lambda setting: ("=" in setting, len(setting))))
    return f"{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}-{digest}"


def stage(*, _root_: DictConfig) -> str:
    """Return the stage of a run: training, or finetuning of pretrained weights."""
    return "finetuning" if starts_from_pretrained(_root_) else "training"


def starts_from_pretrained(config: DictConfig) -> bool:
    """True if training starts from the weights of another run; pretraining={} trains that run first."""
    return config.get("pretraining") is not None or bool(config.get("init_from"))


def choices() -> list[str]:
    """Return GROUP=CHOICE for data, size and the parts of the model."""
    chosen = HydraConfig.get().runtime.choices
    return [f"{group}={chosen[group]}" for group in TAG_GROUPS if chosen.get(group) not in (None, "none")]


def groups_with_choices() -> str:
    """Return a line for each group and its choices, for --help."""
    names = {path.parent.relative_to(conf).as_posix() for conf in list_conf_dirs() for path in conf.rglob("[!_]*.yaml")}
    groups = [name for name in sorted(names) if not name.startswith((".", "hydra", "experiment/"))]
    return "\n".join(f"{name}: {', '.join(list_choices(name))}" for name in groups)


def keys_with_comments(*, _root_: DictConfig) -> str:
    """Return a line for each setting, for --help, which Hydra fills in as a string.Template."""
    settings = {key: value for key, value in OmegaConf.to_container(_root_).items() if key != "hydra"}
    return describe_settings(settings, _root_.hydra.runtime.choices).replace("$", "$$")


parse_yaml_in_c()
for one in (twice, half, default, folder_name, stage, choices, groups_with_choices, keys_with_comments, name_command):
    OmegaConf.register_new_resolver(one.__name__, one, replace=True)

# data.tests takes new names, so that data.tests.NAME.source=FILE needs no +; a YAML file cannot set this flag
ConfigStore.instance().store("open", OmegaConf.create({}, flags={"struct": False}), group="data/tests")
