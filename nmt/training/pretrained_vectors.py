"""Start embeddings from pretrained word vectors; special symbols and words without a vector keep their values."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmt.data.parallel_text import Sides
from nmt.data.text_files import file_identity
from nmt.data.vocabulary import SPECIAL
from nmt.data.word_vectors import read_size, read_vectors
from nmt.errors import ConfigurationError, DataError
from nmt.model.translator import Translator

log = logging.getLogger(__name__)


def check_vectors(files: Mapping[str, str | None], init_from: str | None, embedding_size: int) -> None:
    """Refuse files that cannot be read, or whose vectors do not have the size of the embeddings."""
    for side, file in _list_given(files):
        if init_from:
            raise ConfigurationError(f"vectors.{side}={file}: init_from gives this embedding too. Fix: leave one out")
        try:
            size = read_size(file)
        except DataError as error:
            raise ConfigurationError(f"vectors.{side}={error}") from error
        if size != embedding_size:
            raise ConfigurationError(
                f"vectors.{side}={file}: has vectors of {size} numbers, and an embedding has {embedding_size}. "
                f"Fix: size.embedding={size}"
            )


def identify_vectors(files: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the digest of each file; None for one that is missing, because a resumed run needs none."""
    return {side: file_identity(file) if file.is_file() else None for side, file in _list_given(files)}


def fill_embeddings(files: Mapping[str, str | None], model: Translator, languages: Sides) -> dict[str, dict[str, Any]]:
    """Copy the vectors of `files` into the model's embeddings; return what the run's summary says, by side."""
    about = {}
    for side, file in _list_given(files):
        vocabulary = getattr(languages, side).vocabulary
        weight = getattr(model, f"{side}_embedding").weight
        vectors = read_vectors(file, vocabulary.whole_words(), weight.shape[1])
        if not vectors:
            raise ConfigurationError(
                f"vectors.{side}={file}: has none of the words of the {side} vocabulary. Fix: name a file of its "
                f"language, written as data.{side} prepares the text (lowercase, for example)"
            )
        with torch.no_grad():
            weight[list(vectors)] = torch.from_numpy(np.stack(list(vectors.values())))
        words, entries = len(vectors), len(vocabulary) - len(SPECIAL)
        share = words / entries
        log.info("vectors.%s=%s: %d of %d words (%.1f %%) have a vector", side, file, words, entries, 100 * share)
        about[side] = {"file": str(file), "digest": file_identity(file), "words": words, "share": round(share, 4)}
    return about


def _list_given(files: Mapping[str, str | None]) -> list[tuple[str, Path]]:
    return [(side, Path(str(file))) for side, file in files.items() if file is not None]
