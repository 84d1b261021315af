"""Identify a run in W&B: the resolvers ${sweep_of:}, ${run_name:} and ${run_id:} of conf/logger.

Importing registers them.
"""

import hashlib
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from nmt.runs.folder import SWEEP, read_summary, read_sweep_jobs


def sweep_of() -> str | None:
    """Return the name of the sweep that the run is a job of."""
    config = HydraConfig.get()
    folder = Path(config.runtime.output_dir).parent
    return folder.name if (folder / SWEEP).is_file() or config.mode == RunMode.MULTIRUN else None


def run_name(name: str) -> str:
    """Return the overrides that tell a job from the others of its sweep; of another run, its name."""
    config = HydraConfig.get()
    folder = Path(config.runtime.output_dir)
    default = folder.name if config.mode == RunMode.MULTIRUN else name  # of a launcher that writes no sweep.json
    return str(read_sweep_jobs(folder.parent).get(folder.name, {}).get("name", default))


def run_id() -> str:
    """Return the id in the run's summary: the same on resume, even in a moved folder, and a new one for a new run."""
    folder = HydraConfig.get().runtime.output_dir
    other_rank = hashlib.blake2b(folder.encode(), digest_size=6).hexdigest()  # which logs nothing
    return read_summary(Path(folder)).get("id", other_rank)


for resolver in (sweep_of, run_name, run_id):
    OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)
