"""Score a model's attention against gold alignments, while the model is forced to produce the references."""

from typing import NamedTuple

import numpy as np

from nmt.data.parallel_text import SentencePair
from nmt.data.preprocessing import Preprocessing
from nmt.data.word_alignments import Gold, Links
from nmt.errors import DataError
from nmt.evaluation.alignment_error import compute_measures, count_links, count_weights, link_scores
from nmt.evaluation.forced_scoring import score_translations
from nmt.translate.alignment import link_words
from nmt.translate.text_translator import TextTranslator


class AlignmentScores(NamedTuple):
    """Scores of a text's alignments, with the weights, the links and the counts of each sentence."""

    scores: dict[str, float]
    weights: list[np.ndarray]  # (target words, source words)
    links: list[Links]
    counts: np.ndarray  # (sentence, counts of its links, then of its weights)


def score_forced_alignments(
    translator: TextTranslator,
    pairs: list[SentencePair],
    gold: list[Gold],
    threshold: float | None,
    *,
    batch_size: int = 64,
    aligned_word: str = "predicted",
    words: str = "text",
) -> AlignmentScores:
    """Score the attention of forced decoding; a source that preprocessing leaves empty has no attention.

    `words` are those that the gold links count: `text` or `preprocessed`.
    """
    weights = []
    scored = score_translations(translator, iter(pairs), batch_size=batch_size, aligned_word=aligned_word)
    for number, (pair, translation, links) in enumerate(zip(pairs, scored, gold, strict=True), start=1):
        source, target = (
            map_words(number, text, language.preprocessing, words)
            for text, language in zip(pair, translator.languages, strict=True)
        )
        attention = np.zeros((len(target), len(source)))
        if translation is not None:
            attention = translation.alignment[:-1, : len(source)]
        weights.append(to_whitespace_words(attention, source, target))
        check_positions(number, links, weights[-1].shape)
    return score_alignments(weights, gold, threshold)


def check_positions(number: int, gold: Gold, shape: tuple[int, int]) -> None:
    """Refuse a link beyond the (target words, source words) of a pair."""
    target_words, source_words = shape
    for source, target in gold.possible:
        if source >= source_words or target >= target_words:
            raise DataError(
                f"pair {number}: its alignments link word {source + 1} to word {target + 1}, but it has "
                f"{source_words} and {target_words}. Fix: data.tests.NAME.alignments_base=0 or 1, the number of the "
                "first word"
            )


def score_alignments(weights: list[np.ndarray], gold: list[Gold], threshold: float | None) -> AlignmentScores:
    """Score alignments (target words, source words): AER and SAER, and precision, recall and F1 of the links."""
    links = [extract_links(sentence_weights, threshold) for sentence_weights in weights]
    counts = np.hstack([list(map(count_links, links, gold)), list(map(count_weights, weights, gold))])
    aer, saer = compute_measures(counts.sum(0)).tolist()
    scores = link_scores(links, gold)
    others = {f"alignment_{name}": scores[name] for name in ("precision", "recall", "f1")}
    return AlignmentScores({"aer": aer, "saer": saer, **others}, weights, links, counts)


def mark_gold(gold: Gold, shape: tuple[int, int]) -> np.ndarray:
    """Return (target words, source words): 1 for a sure link, 0.5 for a possible one, else 0."""
    marks = np.zeros(shape)
    for links, mark in ((gold.possible, 0.5), (gold.sure, 1.0)):
        for source, target in links:
            marks[target, source] = mark
    return marks


def extract_links(weights: np.ndarray, threshold: float | None) -> Links:
    """Return links of (target words, source words).

    Without a threshold each target word gets one link (Luong 2015 §5.4). With one, every weight that reaches it is a
    link.
    """
    if threshold is None:
        return set(link_words(weights))
    return {(int(source), int(target)) for target, source in zip(*np.nonzero(weights >= threshold), strict=True)}


def map_words(number: int, line: str, preprocessing: Preprocessing, words: str) -> np.ndarray:
    """Return (model words, words of the gold links): above 0 where a word of the model is a part of the other."""
    if words == "preprocessed":
        return np.eye(len(preprocessing(line).split()))
    return count_shared_letters(number, line, preprocessing)


def count_shared_letters(number: int, line: str, preprocessing: Preprocessing) -> np.ndarray:
    """Return (model words, whitespace words): how many letters a word of the model shares with one between spaces.

    Tokenization moves spaces: a Chinese word of three characters may be three words for the model.
    """
    model_words = preprocessing(line).split()
    words = [preprocessing(word).replace(" ", "") for word in line.split()]
    if "".join(model_words) != "".join(words):
        raise DataError(
            f"pair {number}: gold alignments cannot be used, because preprocessing changes the letters of {line!r} to "
            f"{' '.join(model_words)!r}. Fix: evaluate a run with data.{{source,target}}.normalize=false or "
            "tokenizer=none"
        )
    shared = np.zeros((len(model_words), len(words)), np.float32)
    # for each letter of the line the index of its word, on both sides
    letters = (np.repeat(np.arange(len(side)), [*map(len, side)]) for side in (model_words, words))
    np.add.at(shared, tuple(letters), 1.0)
    return shared


def to_whitespace_words(weights: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Turn weights of the model's words into weights of the words between spaces.

    A source word gets the sum of its parts' weights. A target word gets the mean over its letters.

    Args:
        weights: (target, source) in words of the model.
        source: Shared letters of the source, from `count_shared_letters`.
        target: Shared letters of the target.
    """
    return (target / target.sum(0).clip(1.0)).T @ weights @ (source / source.sum(1, keepdims=True))
