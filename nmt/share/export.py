"""Write a trained model to a folder that can be shared, and upload it; nmt/runs/shared_model.py reads it."""

import errno
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import OmegaConf
from safetensors.torch import save_file

from nmt.data.vocabulary import TOKENIZERS
from nmt.errors import ConfigurationError, UserError
from nmt.runs.folder import CANDIDATES, CARD, SETTINGS, WEIGHTS, WORD_TABLE
from nmt.runs.shared_model import MOST_BYTES
from nmt.runs.trained_model import TrainedRun
from nmt.share.model_card import write_card
from nmt.system.files import atomic_folder, check_writable, write_json, write_text
from nmt.system.hub import parse_hub_name, upload


def export_model(path: str, folder: Path, name: str | None = None, user_dir: str | None = None) -> None:
    """Write a run's model to a new folder, completely or not at all.

    Args:
        path: The run's folder, or one of its checkpoints.
        folder: The new folder.
        name: The name that the model will have on the hub, for its card.
        user_dir: The folder of the user's own classes.
    """
    if name is not None:
        parse_hub_name("push", name)
    exists = ConfigurationError(f"export={folder}: is there already. Fix: name a new folder, or remove it")
    if folder.exists():
        raise exists
    check_writable(folder, f"export={folder}")
    run = TrainedRun(path, user_dir)
    if run.checkpoint.name == WEIGHTS:
        raise ConfigurationError(f"export={folder}: run={path} is such a folder already. Fix: copy it, or push=hf:…")
    try:
        with atomic_folder(folder) as draft:
            _write_model(run, draft)
            write_text(draft / CARD, write_card(run, name))
            _check_is_same(run, TrainedRun(str(draft), user_dir), folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another process exported to it meanwhile
            raise exists from None
        raise


def push_model(path: str, name: str, user_dir: str | None = None) -> str:
    """Upload a run's model, or a folder of `export_model` as it is, and return its address on the hub."""
    parse_hub_name("push", name)
    run = TrainedRun(path, user_dir)
    if run.checkpoint.name == WEIGHTS:
        return upload(run.folder, name, MOST_BYTES)
    with TemporaryDirectory() as place:
        folder = Path(place) / "model"
        export_model(path, folder, name, user_dir)
        return upload(folder, name, MOST_BYTES)


def _write_model(run: TrainedRun, folder: Path) -> None:
    # copies, because the format refuses tensors that share memory, as tied embeddings do
    weights = {name: value.contiguous().clone() for name, value in run.model.state_dict().items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / SETTINGS, {"step": run.step, "config": OmegaConf.to_container(run.config)})
    shutil.copymode(folder / SETTINGS, folder / WEIGHTS)  # because save_file lets only its owner read the file
    for name, language in zip(TOKENIZERS, run.languages, strict=True):
        write_text(folder / name, language.vocabulary.to_json())
    for name in (CANDIDATES, WORD_TABLE):
        if (run.folder / name).is_symlink():  # because a stranger's run could link to any file of the user
            raise UserError(f"export: {run.folder / name} is a link. Fix: remove it, or copy its file there")
        if (run.folder / name).is_file():
            shutil.copyfile(run.folder / name, folder / name)


def _check_is_same(run: TrainedRun, other: TrainedRun, folder: Path) -> None:
    """Refuse to share what cannot be read back, such as an infinite number in the settings."""
    weights, copies = run.model.state_dict(), other.model.state_dict()
    if other.config != run.config or not all(value.equal(copies[name]) for name, value in weights.items()):
        raise UserError(f"export={folder}: {run.checkpoint} has settings or weights that cannot be written to it")
