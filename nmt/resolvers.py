"""The arithmetic that the configuration files use: ${twice:…}, ${half:…}, ${default:…,…}. Importing registers it."""

from omegaconf import OmegaConf

OmegaConf.register_new_resolver("twice", lambda size: 2 * int(size), replace=True)
OmegaConf.register_new_resolver("half", lambda size: int(size) // 2, replace=True)
OmegaConf.register_new_resolver("default", lambda value, other: other if value is None else value, replace=True)
