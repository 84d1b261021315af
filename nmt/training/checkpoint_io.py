"""Lightning's checkpoints, written atomically."""

from pathlib import Path
from typing import Any

from lightning_fabric.plugins import TorchCheckpointIO

from nmt.runs.checkpoint_file import load_checkpoint, save_checkpoint
from nmt.runs.folder import LAST, PREVIOUS


class WholeFiles(TorchCheckpointIO):
    """Lightning's checkpoints as files that are whole, or are not there; the one before the last is kept."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        save_checkpoint(checkpoint, path, before=path.with_name(PREVIOUS) if path.name == LAST else None)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return load_checkpoint(Path(path))
