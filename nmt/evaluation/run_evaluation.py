"""Evaluate a run: translate a test set, score the translations, write the result files."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError
from nmt.evaluation.attention_alignment import score_forced_alignments
from nmt.evaluation.bleu import bleu_metric, warn_of_low_bleu
from nmt.evaluation.evaluation_folder import choose_folder, keep_other_scores
from nmt.evaluation.forced_scoring import reference_perplexity
from nmt.evaluation.mechanism import compute_figures, count_gold_links
from nmt.evaluation.result_files import write_results
from nmt.evaluation.test_set import TestSet, check_data_overrides, hint_at_folder, read_test_set
from nmt.evaluation.test_set_scores import (
    count_training_words,
    score_by_frequency,
    score_by_length,
    score_translated_set,
)
from nmt.evaluation.translated_set import TranslatedSet, translate_test_set
from nmt.runs.scoring import Scoring
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.files import check_writable
from nmt.translate.loading import build_search, load_translator
from nmt.translate.unknown_words import make_replacer

log = logging.getLogger(__name__)


class Evaluation(NamedTuple):
    """A test set, its translations, the content of scores.json, and the folder of the result files."""

    test: TestSet
    translated: TranslatedSet
    scores: dict[str, Any]
    folder: Path


def evaluate_run(folder: Path, scoring: Scoring) -> None:
    """Evaluate a run after training, and log BLEU and chrF."""
    keys = {"run": str(folder)} | {name: getattr(scoring, name) for name in ("user_dir", "unknown", "device")}
    settings = OmegaConf.merge(load_defaults("evaluate"), scoring.search, keys)
    evaluation = evaluate(settings, [] if scoring.test is None else [f"data.test={scoring.test}"])
    scores = evaluation.scores
    bleu, chrf = (scores["scores"][name]["score"] for name in ("bleu", "chrf"))
    log.info("%s: bleu %.2f, chrf %.2f, in %s/", scores["test"], bleu, chrf, evaluation.folder)


def evaluate(settings: DictConfig, data_overrides: list[str], *, heatmaps: int = 0) -> Evaluation:
    """Evaluate the run or the ensemble of the settings; draw the alignments of the first `heatmaps` sentences."""
    # everything that can be wrong is checked before the search, because that may take hours
    check_data_overrides(data_overrides)
    runs, translator = load_translator(settings)
    search = build_search(settings, runs)
    data = runs[0].data(data_overrides)
    bleu_metric(**data.score)
    with hint_at_folder():
        test = read_test_set(data)
        frequencies = count_training_words(data) if settings.by_frequency else None
        unknown = settings.unknown or runs[0].unknown
        replace_unknown = make_replacer(runs[0], unknown, data_overrides)
    entries = _describe_settings(runs, search, settings, unknown)
    folder = choose_folder(runs, settings, test.name, entries, data_overrides)
    if folder.is_symlink():  # a run from somebody else must not choose where files are replaced
        raise ConfigurationError(f"{folder}: is a link to another folder. Fix: output=FOLDER writes the results there")
    check_writable(folder, str(folder), ". Fix: output=FOLDER writes the results elsewhere")
    alignments = None
    if test.gold is not None:
        how = {"batch_size": settings.batch_size, "aligned_word": search.aligned_word, "words": test.alignments_words}
        alignments = score_forced_alignments(translator, test.pairs, test.gold, settings.link_threshold, **how)
    traces = settings.traces or settings.mechanism
    translated = translate_test_set(test, translator, search, settings.batch_size, replace_unknown, traces)
    if settings.traces and not any(translation.traces for translation in translated.translations):
        log.warning("traces=true: no part of this model shows more than its alignment, so there is no traces.npz")
    model_scores = reference_perplexity(translator, test.pairs, batch_size=settings.batch_size)
    model_scores |= alignments.scores if alignments else {}
    languages = translator.languages
    scores = {
        "run": str(folder.parent),
        "test": test.name,
        "sentences": len(test.pairs),
        "blank_pairs_dropped": test.blank,
        "empty_sources": translated.empty,
        "in_parts": translated.in_parts,
        **entries,
        "counted": dict(data.score),
        "scores": score_translated_set(test, translated, languages, **data.score) | model_scores,
        **score_by_length(test, translated, languages, **data.score),
        "by_frequency": None if frequencies is None else score_by_frequency(test, translated, languages, frequencies),
        "sentences_per_second": round(len(test.pairs) / translated.seconds, 1),
        "data_overrides": data_overrides,
        "alignment_counts": _format_rows(alignments.counts) if alignments else None,
    }
    figures = None
    if settings.mechanism:
        figures = compute_figures(translated.translations, list(count_gold_links(test, translated.translations)))
    keep_other_scores(folder, test.name, entries, data_overrides, runs[0])
    write_results(folder, test, translated, alignments, scores, figures, heatmaps=heatmaps)
    warn_of_low_bleu(test.name, scores["scores"]["bleu"]["score"])
    return Evaluation(test, translated, scores, folder)


def _describe_settings(runs: list[TrainedRun], search: Search, settings: DictConfig, unknown: str) -> dict[str, Any]:
    """Return the members and the settings of an evaluation, for scores.json."""
    plain = OmegaConf.to_container(settings, resolve=True)
    return {
        "members": [{"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} for run in runs],
        "search": asdict(search),
        "matmul_precision": torch.get_float32_matmul_precision(),
        **{name: plain[name] for name in EVALUATION_DEFAULTS},
        "unknown": unknown,
    }


def _format_rows(counts: np.ndarray) -> list[str]:
    """Return a line for each sentence: |A|, |S|, |A ∩ S|, |A ∩ P| of the links, then of the weights."""
    return [" ".join(f"{value:.6g}" for value in row) for row in counts]
