"""What translates, as the keys of a command describe it: runs or ensembles, their search, unknown words."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig

from nmt.data.parallel_text import SIDES
from nmt.errors import ConfigurationError
from nmt.model.translator import Translator
from nmt.runs.trained_model import Run
from nmt.search.ensemble import Ensemble, Member
from nmt.search.settings import BESIDE, Search
from nmt.translate.alignment import links
from nmt.translate.int8 import in_int8
from nmt.translate.text_translator import TextTranslator, Translation
from nmt.translate.unknown_words import UnknownWords, check_unknown


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


OF_NULL = {  # keys whose default says nothing of their kind: what fits, in code and in words
    "candidates": (lambda value: isinstance(value, bool), "must be true or false"),
    "link_threshold": (_is_number, "must be a number"),
    "weights": (
        lambda value: isinstance(value, list | ListConfig) and all(map(_is_number, value)),
        "must be a list of numbers, one for each run, 'weights=[2,1]'",
    ),
}


def opened(settings: DictConfig) -> tuple[list[Run], TextTranslator]:
    """What `run`, or `runs` with `weights` and `average`, name."""
    check_values(settings)
    runs = [Run(path) for path in paths_of(settings)]
    if settings.run is not None:
        return runs, translator_of(runs[0], settings.device, settings.candidates, int8=settings.int8)
    listed = _whose_candidates(runs, settings.candidates)
    for run in runs[1:]:
        _check_same_languages(runs[0], run)
    members = [Member(_model_of(run, settings.device, settings.int8), run.config.data.source_end) for run in runs]
    ensemble = Ensemble(members, weights=settings.weights, average=settings.average)
    return runs, _translator(ensemble, ensemble.source_end, listed, settings.device, settings.candidates)


def paths_of(settings: DictConfig) -> list[str]:
    """Of the runs that `run` or `runs` name."""
    if settings.run is None and not settings.runs:
        raise ConfigurationError("run=FOLDER must be given, or 'runs=[FOLDER,FOLDER]' for several")
    if settings.run is not None and settings.runs:
        raise ConfigurationError("run and runs both say what translates: give one")
    if isinstance(settings.runs, str):
        raise ConfigurationError(
            f"runs={settings.runs}: several are given as 'runs=[FOLDER,FOLDER]', one as run=FOLDER"
        )
    for key in ("weights", "average"):
        if settings.run is not None and settings[key] != BESIDE[key]:
            raise ConfigurationError(f"{key}={settings[key]}: of several runs ('runs=[FOLDER,FOLDER]'), not of one")
    return [str(path) for path in settings.runs or [settings.run]]


def translator_of(run: Run, device: str, candidates: bool | None = None, *, int8: bool = False) -> TextTranslator:
    return _translator(_model_of(run, device, int8), run.config.data.source_end, run, device, candidates)


def _translator(
    model: Translator | Ensemble, source_end: bool, run: Run, device: str, candidates: bool | None
) -> TextTranslator:
    """With the words of that run."""
    return TextTranslator(
        model, run.languages, source_end=source_end, device=_device(device), candidates=run.candidates(candidates)
    )


def _model_of(run: Run, device: str, int8: bool) -> Translator:
    if int8 and _device(device) != "cpu":
        raise ConfigurationError(f"int8=true: for device=cpu alone, not {_device(device)}")
    return in_int8(run.model) if int8 else run.model


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    there = ["cpu", *["cuda"] * torch.cuda.is_available(), *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if name not in there:
        raise ConfigurationError(f"device={name}: here it can be auto, {', '.join(there)}")
    return name


def _whose_candidates(runs: list[Run], wanted: bool | None) -> Run:
    """The first's, of those that have any."""
    having = [run for run in runs if run.is_of_candidates]
    if wanted is None and 0 < len(having) < len(runs):
        raise ConfigurationError(
            f"runs: {having[0].folder} was trained with candidate lists, others were not; say candidates=true to "
            "search all with its lists, or candidates=false to search the whole vocabulary"
        )
    return (having or runs)[0]


def _check_same_languages(first: Run, other: Run) -> None:
    for side, one, two in zip(SIDES, first.languages, other.languages, strict=True):
        if one.vocabulary.to_json() != two.vocabulary.to_json():
            raise ConfigurationError(
                f"runs: the {side} vocabulary of {other.folder} is not that of {first.folder}; runs that translate as "
                "one must be trained on the same data with the same data.vocabulary"
            )


def check_values(settings: DictConfig) -> None:
    """Refuses those of which nothing could come, or something else than was meant."""
    for key in ("batch_size", "longest_line"):
        if settings.get(key, 1) < 1:
            raise ConfigurationError(f"{key}={settings[key]}: must be at least 1")
    for key, (fits, wanted) in OF_NULL.items():
        value = settings.get(key)
        if not (value is None or fits(value)):
            raise ConfigurationError(f"{key}={value}: {wanted}, or null")


def search_of(settings: DictConfig) -> Search:
    """The search that settings describe."""
    check_values(settings)
    return Search(**{field.name: settings[field.name] for field in dataclasses.fields(Search)})


def replacing(
    runs: list[Run], how: str, data_overrides: list[str] | None = None
) -> Callable[[Translation], Translation]:
    """What happens to words the vocabulary lacks."""
    check_unknown(how)
    if how == "keep":
        return lambda translation: translation
    table = runs[0].word_table(data_overrides) if how == "translate" else None
    return UnknownWords(runs[0].languages.target, table)


def as_record(translation: Translation, *, alignment: bool) -> dict[str, Any]:
    """For JSON."""
    plain = {
        "text": translation.text,
        "score": round(translation.score, 5),
        "log_probability": round(translation.log_probability, 5),
        "source_words": translation.source,
        "words": translation.target,
        "word_scores": [round(float(score), 5) for score in translation.word_scores],
        "links": [list(link) for link in links(translation.word_alignment())],
    }
    return plain | ({"alignment": np.round(translation.alignment.astype(float), 4).tolist()} if alignment else {})
