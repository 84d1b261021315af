"""Load the models that a command names: `run`, or `runs` as an ensemble."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import DictConfig, ListConfig

from nmt.data.candidate_lists import Candidates
from nmt.data.parallel_text import SIDES
from nmt.errors import ConfigurationError
from nmt.model.kernels.graphed_loop import CudaRecorder, Recorder
from nmt.model.translator import Translator
from nmt.runs.trained_model import TrainedRun
from nmt.search.ensemble import Ensemble, Member
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.files import to_path
from nmt.system.freed_memory import keep_freed_memory
from nmt.system.matrix_products import resolve_precision, set_precision
from nmt.system.safe_files import is_number
from nmt.system.threads import check_threads, set_threads
from nmt.translate.int8 import quantize_decoder
from nmt.translate.text_translator import TextTranslator

SEARCH_KEYS = [field.name for field in dataclasses.fields(Search)]
NULLABLE_KEYS = {  # keys whose default null does not show their type: a check, and what the error says
    "candidates": (lambda value: isinstance(value, bool), "must be true or false, or null"),
    "link_threshold": (is_number, "must be a number, or null"),
    "weights": (
        lambda value: isinstance(value, list | ListConfig) and all(map(is_number, value)),
        "must be a list of numbers, one for each run, or null. Fix: 'weights=[2,1]'",
    ),
}


def load_translator(settings: DictConfig) -> tuple[list[TrainedRun], TextTranslator]:
    """Return the run that `run` names, or the ensemble of `runs`: the runs and their translator."""
    check_settings(settings)
    set_threads(settings.threads)
    runs = [TrainedRun(path, settings.user_dir, trust=settings.trust) for path in list_run_paths(settings)]
    set_up_search(settings, runs[0].model)
    if settings.run is not None:
        how = {"int8": settings.int8, "graphs": settings.graphs}
        return runs, make_translator(runs[0], settings.device, settings.candidates, **how)
    first = _choose_candidate_run(runs, settings.candidates)
    for run in runs[1:]:
        _check_same_vocabularies(runs[0], run)
    members = [Member(_take_model(run, settings.device, settings.int8), run.config.data.source_end) for run in runs]
    ensemble = Ensemble(members, weights=settings.weights, average=settings.average)
    candidates = first.candidates(settings.candidates)
    translator = TextTranslator(
        ensemble,
        first.languages,
        source_end=ensemble.source_end,
        device=_choose_device(settings.device),
        candidates=candidates,
        record=_make_recorder(settings.device, settings.graphs, candidates),
    )
    return runs, translator


def set_up_search(settings: DictConfig, model: Translator) -> None:
    """Choose the library of matrix products, and keep freed memory; both apply to the whole process."""
    set_precision(resolve_precision(settings.matmul_precision, model, _choose_device(settings.device)))
    keep_freed_memory()


def list_run_paths(settings: DictConfig) -> list[str]:
    """Return the paths of the runs that `run` or `runs` names."""
    if settings.run is None and not settings.runs:
        raise ConfigurationError(
            "run: no run is given. Fix: name the folder of a run, or 'runs=[FOLDER,FOLDER]' for an ensemble"
        )
    if settings.run is not None and settings.runs:
        raise ConfigurationError(f"run={settings.run}: runs= is given too. Fix: leave out one of them")
    if isinstance(settings.runs, str):
        raise ConfigurationError(
            f"runs={settings.runs}: must be a list. Fix: 'runs=[FOLDER,FOLDER]', or run={settings.runs} for one"
        )
    for key in ("weights", "average"):
        if settings.run is not None and settings[key] != EVALUATION_DEFAULTS[key]:
            raise ConfigurationError(
                f"{key}={settings[key]}: applies only to several runs. Fix: leave it out, or 'runs=[FOLDER,FOLDER]'"
            )
    for path in map(str, settings.runs or ()):
        if "=" in path and "," not in path and not to_path(path).exists():
            raise ConfigurationError(
                f"runs: {path}: no such folder; a comma cuts a name without quotes. Fix: \"runs=['FOLDER','FOLDER']\""
            )
    return [str(path) for path in settings.runs or [settings.run]]


def make_translator(
    run: TrainedRun, device: str, candidates: bool | None = None, *, int8: bool = False, graphs: bool = False
) -> TextTranslator:
    """Return the translator of one run.

    Args:
        run: The run. With `int8` its model is changed in place.
        device: `auto`, or the name of a device.
        candidates: Search among candidate lists, or the whole vocabulary; None: as the run was trained.
        int8: Use 8-bit integer products, on the CPU.
        graphs: Run the steps of a search as graphs, on a GPU.
    """
    model, lists = _take_model(run, device, int8), run.candidates(candidates)
    return TextTranslator(
        model,
        run.languages,
        source_end=run.config.data.source_end,
        device=_choose_device(device),
        candidates=lists,
        record=_make_recorder(device, graphs, lists),
    )


def _take_model(run: TrainedRun, device: str, int8: bool) -> Translator:
    if int8 and _choose_device(device) != "cpu":
        raise ConfigurationError(f"int8=true: works only on the CPU, not on {_choose_device(device)}. Fix: device=cpu")
    return quantize_decoder(run.model) if int8 else run.model


def _make_recorder(device: str, graphs: bool, candidates: Candidates | None) -> Recorder | None:
    if graphs and candidates is not None:  # whose weights are others for each batch
        raise ConfigurationError(
            "graphs=true: does not work with candidate lists. Fix: graphs=false or candidates=false"
        )
    if graphs and _choose_device(device) == "cpu":
        raise ConfigurationError(
            "graphs=true: needs an NVIDIA GPU. Fix: device=cuda where there is one, or graphs=false"
        )
    return CudaRecorder(_choose_device(device)) if graphs else None


def _choose_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    devices = ["cpu", *["cuda"] * torch.cuda.is_available(), *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if name not in devices:
        raise ConfigurationError(f"device={name}: not available here. Fix: device=auto, or one of {', '.join(devices)}")
    return name


def _choose_candidate_run(runs: list[TrainedRun], candidates: bool | None) -> TrainedRun:
    """Return the run whose candidate lists are used: the first that has any."""
    with_lists = [run for run in runs if run.has_candidates]
    if candidates is None and 0 < len(with_lists) < len(runs):
        raise ConfigurationError(
            f"runs: {with_lists[0].folder} was trained with candidate lists, others were not. Fix: candidates=true to "
            "search all with its lists, or candidates=false to search the whole vocabulary"
        )
    return (with_lists or runs)[0]


def _check_same_vocabularies(first: TrainedRun, other: TrainedRun) -> None:
    for side, one, two in zip(SIDES, first.languages, other.languages, strict=True):
        if one.vocabulary.to_json() != two.vocabulary.to_json():
            raise ConfigurationError(
                f"runs: {first.folder} and {other.folder} have different {side} vocabularies. Fix: combine runs that "
                "were trained on the same data with the same data.vocabulary"
            )
        if one.preprocessing != two.preprocessing:
            raise ConfigurationError(
                f"runs: {first.folder} and {other.folder} prepare {side} text in different ways. Fix: combine runs "
                f"with the same data.{side}"
            )


def check_settings(settings: DictConfig) -> None:
    """Raise an error for values that are wrong for any run."""
    for key in ("batch_size", "longest_line"):
        value = settings.get(key, 1)
        if value is None or value < 1:
            raise ConfigurationError(f"{key}={'null' if value is None else value}: must be at least 1")
    check_threads(settings.threads)
    for key, (is_valid, problem) in NULLABLE_KEYS.items():
        value = settings.get(key)
        if not (value is None or is_valid(value)):
            raise ConfigurationError(f"{key}={value}: {problem}")
    Search(**_find_given_search(settings) | {"nbest": 1})  # because the beam may be the run's


def build_search(settings: DictConfig, runs: Sequence[TrainedRun] = ()) -> Search:
    """Return the search: each key as given, where it is null as the runs' settings name it, else the default."""
    check_settings(settings)
    given = _find_given_search(settings)
    first, *others = [Search(**run.search | given) for run in runs] or [Search(**given)]
    for run, other in zip(runs[1:], others, strict=True):
        if differing := [name for name in SEARCH_KEYS if getattr(first, name) != getattr(other, name)]:
            one, two = (" ".join(f"{name}={getattr(search, name)}" for name in differing) for search in (first, other))
            raise ConfigurationError(
                f"runs: {runs[0].folder} is searched with {one}, {run.folder} with {two}. Fix: type one search, such "
                f"as {one}"
            )
    return first


def _find_given_search(settings: DictConfig) -> dict[str, Any]:
    return {name: settings[name] for name in SEARCH_KEYS if settings[name] is not None}
