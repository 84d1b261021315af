"""Read a trained model from a folder that can be shared: weights in safetensors, the rest in text; no pickles.

    model.safetensors · config.json · source.tokenizer.json · target.tokenizer.json · README.md
    candidates.npz · word_table.tsv.gz: if the run has them

Anyone may have written the folder, so names, sizes and links are checked before a file is read.
"""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import TOKENIZER_BYTES, TOKENIZERS
from nmt.errors import CheckpointError, first_line
from nmt.runs.folder import CANDIDATES, CARD, SETTINGS, WEIGHTS, WORD_TABLE
from nmt.system.safe_files import UnreadableError, inside, read_json, read_text

NEEDED = (WEIGHTS, SETTINGS, *TOKENIZERS)
MEGABYTE = 1 << 20
MOST_BYTES = {  # of each file; a folder's other files are neither read nor downloaded
    WEIGHTS: 16384 * MEGABYTE,
    SETTINGS: 4 * MEGABYTE,
    **dict.fromkeys(TOKENIZERS, TOKENIZER_BYTES),
    CARD: 4 * MEGABYTE,
    CANDIDATES: 1024 * MEGABYTE,
    WORD_TABLE: 1024 * MEGABYTE,
}


def read_model(folder: Path) -> dict[str, Any]:
    """Return what a checkpoint of the model would hold: nmt, state_dict and global_step.

    Raises:
        CheckpointError: a file is missing, damaged or refused.
    """
    check_files(folder)
    try:
        settings = read_json(folder / SETTINGS)
        vocabularies = {side: read_text(folder / name, name) for side, name in zip(SIDES, TOKENIZERS, strict=True)}
    except UnreadableError as error:
        raise CheckpointError(f"{folder}: is not a model of this project ({error})") from None
    if missing := [key for key in ("config", "step") if key not in settings]:
        raise CheckpointError(f"{folder}: is not a model of this project ({SETTINGS} has no {missing[0]})")
    try:
        weights = load_file(folder / WEIGHTS)
    except Exception as error:  # because the library raises errors of its own and of the system
        raise CheckpointError(f"{folder / WEIGHTS}: holds no weights in safetensors ({first_line(error)})") from error
    return {
        "nmt": {"config": settings["config"], "vocabularies": vocabularies},
        "state_dict": {f"model.{name}": value for name, value in weights.items()},
        "global_step": settings["step"],
    }


def check_files(folder: Path) -> None:
    """Refuse links out of the folder, files that are too large, and pipes and devices, which may never end."""
    for name, most in MOST_BYTES.items():
        path = folder / name
        if not path.exists() and not path.is_symlink():
            continue
        try:
            inside(folder, name)
        except UnreadableError as error:
            raise CheckpointError(f"{folder}: refused, because {error}") from None
        if not path.is_file():
            raise CheckpointError(f"{path}: refused, because it is not a file")
        if (size := path.stat().st_size) > most:
            raise CheckpointError(f"{path}: refused, because it has {size} bytes, and may have {most}")
