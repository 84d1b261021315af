"""Write the checkpoint of a tiny model that was not trained, because training takes seconds."""

from pathlib import Path

import torch
from compositions import configured
from omegaconf import OmegaConf

from nmt.data.toy_corpus import ToyPairs
from nmt.data.vocabulary import Vocabulary
from nmt.runs.checkpoint_file import save_checkpoint
from nmt.runs.trained_model import build_model

STEP = 7
SIZES = {"source": 60, "target": 50}  # of the vocabularies


def make_content(*overrides: str) -> dict:
    """Return the content of a checkpoint on the toy language."""
    sides = zip(SIZES.items(), zip(*ToyPairs("train", 40), strict=True), strict=True)
    vocabularies = {
        side: Vocabulary.learn([list(lines)], kind="words", size=size, minimum_count=1) for (side, size), lines in sides
    }
    config = configured(*overrides)
    for side, vocabulary in vocabularies.items():
        config.model[f"{side}_vocabulary_size"] = len(vocabulary)
    torch.manual_seed(1)
    state = {f"model.{name}": value for name, value in build_model(config).state_dict().items()}
    texts = {side: vocabulary.to_json() for side, vocabulary in vocabularies.items()}
    record = {"config": OmegaConf.to_container(config), "vocabularies": texts}
    return {"nmt": record, "state_dict": state, "global_step": STEP}


def write_checkpoint(folder: Path, content: dict) -> Path:
    """Write the best checkpoint of a run, and return the run's folder."""
    save_checkpoint(content, folder / "checkpoints" / "best.ckpt")
    return folder
