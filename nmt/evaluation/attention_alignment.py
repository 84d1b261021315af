"""A model's alignments against those made by hand; and any aligner's links, read from files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from omegaconf import DictConfig

from nmt.data.parallel_text import Line
from nmt.data.preprocessing import Preprocessing
from nmt.data.word_alignments import Gold, Links, read_links_beside_gold
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.alignment_error import alignment_error_rate, in_per_cent, link_counts, weight_counts
from nmt.evaluation.forced_scoring import scored
from nmt.translate.alignment import links
from nmt.translate.text_translator import TextTranslator


def linked(weights: np.ndarray, threshold: float | None) -> Links:
    """(target words, source words) → one link for each target word (Luong 2015 §5.4), or every weight that reaches the
    threshold."""
    if threshold is None:
        return set(links(weights))
    return {(int(source), int(target)) for target, source in zip(*np.nonzero(weights >= threshold), strict=True)}


def hard_scores(found: list[Links], gold: list[Gold]) -> dict[str, float]:
    """In per cent."""
    error = alignment_error_rate(found, [one.sure for one in gold], [one.possible for one in gold])
    together = error.precision + error.recall
    f1 = 2 * error.precision * error.recall / together if together else 0.0
    return {"aer": error.error_rate, "precision": error.precision, "recall": error.recall, "f1": f1}


class Judged(NamedTuple):
    """What came of making a model say the references."""

    scores: dict[str, float]
    links: list[Links]
    counts: np.ndarray  # (sentence, counts of its links and of its weights)


def judged(weights: list[np.ndarray], gold: list[Gold], threshold: float | None) -> Judged:
    """Forced alignments (target words, source words) against those made by hand."""
    found = [linked(one, threshold) for one in weights]
    both = zip(found, weights, gold, strict=True)
    counts = np.array([[*link_counts(own, known), *weight_counts(given, known)] for own, given, known in both])
    aer, saer = in_per_cent(counts.sum(0)).tolist()
    hard = hard_scores(found, gold)
    others = {f"alignment_{name}": hard[name] for name in ("precision", "recall", "f1")}
    return Judged({"aer": aer, "saer": saer, **others}, found, counts)


def shared_letters(number: int, line: str, preprocessing: Preprocessing) -> np.ndarray:
    """(words the model sees, words between blanks): how many letters a word of both has in common.

    Tokenising moves blanks: a Chinese word of three characters may be three words for the model.
    """
    seen = preprocessing(line).split()
    given = [preprocessing(word).replace(" ", "") for word in line.split()]
    if "".join(seen) != "".join(given):
        raise DataError(
            f"pair {number}: the alignments are of words between blanks, whose letters this run's preprocessing "
            f"changes with what stands around them ({line!r} becomes {' '.join(seen)!r}): a run with "
            "data.{source,target}.normalize=false or tokenizer=none can be judged by them"
        )
    shared = np.zeros((len(seen), len(given)), np.float32)
    np.add.at(shared, tuple(np.repeat(np.arange(len(words)), [*map(len, words)]) for words in (seen, given)), 1.0)
    return shared


def between_blanks(weights: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(target, source) words the model sees → those between blanks, by the letters they share: a source word gets its
    parts' weights together, a target word the mean of its letters'."""
    return (target / target.sum(0).clip(1.0)).T @ weights @ (source / source.sum(1, keepdims=True))


def forced_scores(
    translator: TextTranslator, lines: list[Line], gold: list[Gold], threshold: float | None, *, batch_size: int = 64
) -> Judged:
    """What the model attends to while it is made to say the references; nothing where the source is empty to it."""
    if len(gold) != len(lines):
        raise DataError(f"{len(gold)} lines of alignments for {len(lines)} pairs: each pair needs its own")
    weights = []
    found = scored(translator, iter(lines), batch_size=batch_size)
    for number, (line, given) in enumerate(zip(lines, found, strict=True), start=1):
        source, target = (
            shared_letters(number, text, language.preprocessing)
            for text, language in zip(line, translator.languages, strict=True)
        )
        seen = np.zeros((len(target), len(source))) if given is None else given.alignment[:-1, : len(source)]
        own = between_blanks(seen, source, target)
        if beyond := [link for link in gold[number - 1].possible if link[1] >= len(own) or link[0] >= own.shape[1]]:
            raise DataError(
                f"pair {number}: its alignments link word {beyond[0][0] + 1} to word {beyond[0][1] + 1}, but it has "
                f"{own.shape[1]} and {len(own)}; do they count from data.tests.NAME.alignments_base?"
            )
        weights.append(own)
    return judged(weights, gold, threshold)


def score_files(links_file: Path, gold_file: Path, *, links_base: int, gold_base: int) -> dict[str, float]:
    """Of any aligner's links: `i-j`; gold: `i-j` sure, `ipj` possible."""
    pairs = list(read_links_beside_gold(links_file, gold_file, links_base=links_base, gold_base=gold_base))
    if not any(gold.possible for _, gold in pairs):
        raise DataError(f"{gold_file}: has no links; there is nothing to score {links_file} against")
    return hard_scores([found for found, _ in pairs], [gold for _, gold in pairs])


def score_links(settings: DictConfig) -> dict[str, float]:
    """What links= and gold= name."""
    if settings.links is None or settings.gold is None:
        raise ConfigurationError("links=FILE gold=FILE: both are needed, a line a sentence each")
    bases = {"links_base": settings.links_base, "gold_base": settings.gold_base}
    return score_files(Path(str(settings.links)), Path(str(settings.gold)), **bases)
