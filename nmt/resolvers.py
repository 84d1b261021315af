"""What the configuration files compute: ${twice:…}, ${half:…}, ${default:…,…}, ${folder_name:…}.

Importing registers it.
"""

import hashlib

from omegaconf import OmegaConf

LONGEST_NAME = 150  # of a folder; file systems allow 255 bytes

OmegaConf.register_new_resolver("twice", lambda size: 2 * int(size), replace=True)
OmegaConf.register_new_resolver("half", lambda size: int(size) // 2, replace=True)
OmegaConf.register_new_resolver("default", lambda value, other: other if value is None else value, replace=True)


def folder_name(overrides: str) -> str:
    """A job's overrides as one folder: stable, and never too long or in several levels."""
    name = overrides.replace("/", ".") or "defaults"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=5).hexdigest()
    return f"{name.encode()[:LONGEST_NAME].decode(errors='ignore')}-{digest}"


OmegaConf.register_new_resolver("folder_name", folder_name, replace=True)
