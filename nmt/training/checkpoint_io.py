"""Lightning's checkpoints, written atomically."""

from pathlib import Path
from typing import Any

from lightning_fabric.plugins import TorchCheckpointIO

from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint
from nmt.runs.folder import LAST, PREVIOUS


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write checkpoints completely or not at all, and keep the one before the last as previous.ckpt."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint to `path`."""
        path = Path(path)
        save_checkpoint(checkpoint, path, before=path.with_name(PREVIOUS) if path.name == LAST else None)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint; all of it is on the CPU and made of plain containers and tensors."""
        return load_checkpoint(Path(path))
