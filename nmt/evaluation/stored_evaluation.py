"""Read a run on a test set, as evaluate.py left it: scores, how they were counted, and the sentences."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU

from nmt.errors import first_line
from nmt.evaluation.alignment_error import COUNTS
from nmt.evaluation.bleu import ORDER, sentence_statistics, split_words
from nmt.evaluation.over_under_translation import count_errors
from nmt.runs.folder import BEST, SCORES, UNREADABLE, changes_of_test, strip_settings
from nmt.search.settings import EVALUATION_DEFAULTS, Search
from nmt.system.safe_files import UnreadableError, inside, is_number, read_json, read_text

INCLUDED_TOKENIZERS = ("none", "13a", "intl", "zh", "char")  # of sacrebleu; others need further packages
DEFAULTS = {  # how a run is evaluated unless scores.json has other settings
    **{f"search.{key}": value for key, value in asdict(Search()).items()}, **EVALUATION_DEFAULTS, "checkpoint": BEST
}  # fmt: skip


class Checkpoint(NamedTuple):
    """A checkpoint's file name and its step."""

    name: str
    step: int


class Sentence(NamedTuple):
    """A sentence of a test set, and its translation."""

    source: str
    reference: str
    hypothesis: str
    source_words: list[str]
    words: list[str]
    further_references: list[str]


@dataclass(frozen=True, eq=False)
class StoredEvaluation:
    """A run on a test set."""

    scores: dict[str, float]
    signatures: dict[str, str]
    search: dict[str, Any]  # search.beam, unknown, checkpoint, …
    tokenization: dict[str, Any]  # of BLEU: tokenize, lowercase
    checkpoint: Checkpoint | None  # None: an ensemble's, or not stored
    text_overrides: list[str]  # arguments of evaluate.py that changed the text of the test set or how BLEU counts
    alignment_counts: np.ndarray | None  # (sentence, counts) of the alignment error
    sentences: list[Sentence]
    digest: str  # of sources and references
    folder: Path  # of these files

    @property
    def hypotheses(self) -> list[str]:
        """The translation of each sentence."""
        return [sentence.hypothesis for sentence in self.sentences]

    @property
    def references(self) -> list[list[str]]:
        """All first references, then all second ones, and so on."""
        by_sentence = ([sentence.reference, *sentence.further_references] for sentence in self.sentences)
        return [list(lines) for lines in zip(*by_sentence, strict=True)]

    @cached_property
    def statistics(self) -> np.ndarray:
        """(sentence, counts) of BLEU."""
        return sentence_statistics(self.hypotheses, self.references, **self.tokenization)

    @cached_property
    def sentence_bleu(self) -> np.ndarray:
        """The smoothed BLEU of each sentence, over the n-grams that it is long enough for."""
        rows = self.statistics.tolist()
        counts = [(ngrams[:ORDER], ngrams[ORDER:], words, references) for words, references, *ngrams in rows]
        return np.array([BLEU.compute_bleu(*row, smooth_method="exp", effective_order=True).score for row in counts])

    @cached_property
    def adequacy(self) -> np.ndarray:
        """(sentence, counts) of over- and under-translation, in words as BLEU counts them."""
        hypotheses = split_words(self.hypotheses, **self.tokenization)
        references = split_words([sentence.reference for sentence in self.sentences], **self.tokenization)
        return np.array([count_errors(*words) for words in zip(hypotheses, references, strict=True)])


def read_evaluation(run: Path, test: str) -> StoredEvaluation:
    """Read the results in a run's folder on a test set; raise UnreadableError if they are damaged."""
    where, texts = f"{test}/{SCORES}", f"{test}/sentences.jsonl"
    stored = read_json(inside(run, where), where)
    scores, signatures = parse_scores(stored, where)
    sentences = read_sentences(inside(run, texts), texts)
    if stored.get("sentences") != len(sentences):
        raise UnreadableError(
            f"{where} is of {stored.get('sentences')} sentences, sentences.jsonl of {len(sentences)}; evaluate it again"
        )
    evaluation = StoredEvaluation(
        scores=scores,
        signatures=signatures,
        search=parse_search(stored),
        tokenization=_parse_tokenization(stored, signatures),
        checkpoint=parse_checkpoint(stored.get("members")),
        text_overrides=parse_text_overrides(stored, strip_settings(test)),
        alignment_counts=_parse_alignment_counts(stored, len(sentences), where),
        sentences=sentences,
        digest=compute_digest((one.source, one.reference, *one.further_references) for one in sentences),
        folder=run / test,
    )
    tokenizer = evaluation.tokenization["tokenize"]
    try:
        if tokenizer not in INCLUDED_TOKENIZERS:
            _ = evaluation.statistics
    except Exception as error:  # each tokenizer raises errors of other types
        raise UnreadableError(f"BLEU with tok:{tokenizer} cannot be counted here ({first_line(error)})") from None
    return evaluation


def parse_scores(stored: Mapping[str, Any], where: str) -> tuple[dict[str, float], dict[str, str]]:
    """Return the scores of a scores.json by name, and the signatures of those that have one."""
    entries = stored.get("scores")
    if not isinstance(entries, Mapping):
        raise UnreadableError(f"{where} holds no scores; evaluate it again")
    values = {name: entry.get("score") if isinstance(entry, Mapping) else entry for name, entry in entries.items()}
    scores = {name: float(value) for name, value in values.items() if is_number(value)}
    if "bleu" not in scores:
        raise UnreadableError(f"{where} holds no BLEU; evaluate it again")
    signatures = {name: entry.get("signature") for name, entry in entries.items() if isinstance(entry, Mapping)}
    return scores, {name: signature for name, signature in signatures.items() if isinstance(signature, str)}


def parse_search(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an evaluation: search.beam, unknown, …, and the checkpoint's file name."""
    search = stored.get("search") if isinstance(stored.get("search"), dict) else {}
    settings = {f"search.{key}": value for key, value in search.items()}
    checkpoint = parse_checkpoint(stored.get("members"))
    settings |= {"checkpoint": checkpoint.name} if checkpoint else {}
    return settings | {name: stored[name] for name in EVALUATION_DEFAULTS if name in stored}


def _parse_tokenization(stored: Mapping[str, Any], signatures: Mapping[str, str]) -> dict[str, Any]:
    """Return how BLEU was counted: `tokenize` and `lowercase`."""
    counted = stored.get("counted")
    if isinstance(counted, dict) and {"tokenize", "lowercase"} <= set(counted):
        return {name: counted[name] for name in ("tokenize", "lowercase")}
    # older files have the signature alone, nrefs:1|case:lc|tok:13a, in which some tokenizers have other names
    parts = dict(part.split(":", 1) for part in signatures.get("bleu", "").split("|") if ":" in part)
    return {"tokenize": parts.get("tok", "13a"), "lowercase": parts.get("case") == "lc"}


def parse_text_overrides(stored: Mapping[str, Any], test: str) -> list[str]:
    """Return the arguments of evaluate.py that changed the sentences or references, or how BLEU counts."""
    overrides = stored.get("data_overrides")
    try:
        return changes_of_test(test, map(str, overrides)) if isinstance(overrides, list) else []
    except UNREADABLE as error:
        raise UnreadableError(f"data_overrides are not arguments ({first_line(error)}); evaluate it again") from None


def parse_checkpoint(members: Any) -> Checkpoint | None:
    """Return the checkpoint of a single member; None for an ensemble, or if its name or step is missing."""
    match members:
        case [{"checkpoint": str(path), "step": int(step)}]:
            return Checkpoint(Path(path).name, step)
    return None


def _parse_alignment_counts(stored: Mapping[str, Any], sentences: int, where: str) -> np.ndarray | None:
    rows = stored.get("alignment_counts")
    if rows is None:
        return None
    try:
        counts = np.array([[float(value) for value in row.split()] for row in rows])
    except (AttributeError, TypeError, ValueError):
        counts = np.empty(0)
    if counts.shape != (sentences, 2 * COUNTS) or not np.isfinite(counts).all():
        raise UnreadableError(f"{where}: alignment_counts are not {2 * COUNTS} numbers a sentence; evaluate it again")
    return counts


def read_sentences(path: Path, where: str) -> list[Sentence]:
    """Read sentences.jsonl, which errors call `where`."""
    if not path.is_file():
        raise UnreadableError(f"has no {where}: evaluate it again")
    sentences = []
    for number, line in enumerate(read_text(path, where).split("\n"), start=1):
        if line:
            try:
                sentences.append(_parse_sentence(json.loads(line)))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise UnreadableError(f"{where}, line {number}: not a sentence's JSON; evaluate it again") from None
    if not sentences:
        raise UnreadableError(f"{where} is empty; evaluate it again")
    if len({len(sentence.further_references) for sentence in sentences}) > 1:
        raise UnreadableError(f"{where}: not all sentences have as many references; evaluate it again")
    return sentences


def _parse_sentence(stored: Mapping[str, Any]) -> Sentence:
    texts = [stored[key] for key in ("source", "reference", "hypothesis")]
    words = [[str(word) for word in stored.get(key) or ()] for key in ("source_words", "words", "further_references")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return Sentence(*texts, *words)


def compute_digest(sentences: Iterable[tuple[str, ...]]) -> str:
    """Return a digest of a test set's sources and references."""
    digest = blake2b(digest_size=6)
    for texts in sentences:
        digest.update(json.dumps(texts).encode())
    return digest.hexdigest()
