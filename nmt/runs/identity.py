"""What a run is called in W&B: ${sweep_of:} and ${run_id:} of the configuration files. Importing registers them."""

import hashlib
import json
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from nmt.runs.folder import SUMMARY, SWEEP


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


OmegaConf.register_new_resolver("sweep_of", sweep_of, replace=True)
OmegaConf.register_new_resolver("run_id", run_id, replace=True)
