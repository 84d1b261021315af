"""A run on a test set, as `evaluate.py` left it: scores, how they were counted, sentences."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import first_line
from nmt.evaluation.alignment_error import COUNTS
from nmt.evaluation.bleu import sentence_statistics, words_of
from nmt.evaluation.over_under_translation import sentence_counts
from nmt.report.load.safe_files import UnreadableError, is_number, read_json, read_text
from nmt.runs.folder import changes_of_test
from nmt.search.settings import BESIDE

AT_HAND = ("none", "13a", "intl", "zh", "char")  # tokenisers of sacrebleu that need nothing else


class Sentence(NamedTuple):
    source: str
    reference: str
    hypothesis: str
    source_words: list[str]
    words: list[str]
    further_references: list[str]


@dataclass
class Evaluated:
    """A run on a test set."""

    scores: dict[str, float]
    signatures: dict[str, str]
    search: dict[str, Any]
    sentences: list[Sentence]
    alignments: Path
    digest: str  # of sources and references
    weights: tuple[str, int] | None  # the checkpoint's name and step; None: an ensemble's, or not said
    counted: dict[str, Any]  # how BLEU was; empty: its signature alone says so
    alignment_counts: np.ndarray | None  # (sentence, what alignment error is made of), where there is gold
    other_text: list[str]  # what evaluate.py was told that made it another than the test set of this name

    @property
    def hypotheses(self) -> list[str]:
        return [sentence.hypothesis for sentence in self.sentences]

    @property
    def references(self) -> list[list[str]]:
        of_each = ([sentence.reference, *sentence.further_references] for sentence in self.sentences)
        return [list(lines) for lines in zip(*of_each, strict=True)]

    @cached_property
    def statistics(self) -> np.ndarray:
        """(sentence, 10): what BLEU is made of."""
        return sentence_statistics(self.hypotheses, self.references, **self.counting)

    @cached_property
    def adequacy(self) -> np.ndarray:
        """(sentence, 7): what over- and under-translation are made of, in words as BLEU counts them."""
        said = words_of(self.hypotheses, **self.counting)
        wanted = words_of([sentence.reference for sentence in self.sentences], **self.counting)
        return np.array([sentence_counts(*words) for words in zip(said, wanted, strict=True)])

    @property
    def counting(self) -> dict[str, Any]:
        """How BLEU was counted: nrefs:1|case:lc|tok:13a, unless it is told: some tokenisers are called otherwise."""
        if {"tokenize", "lowercase"} <= set(self.counted):
            return {name: self.counted[name] for name in ("tokenize", "lowercase")}
        said = dict(part.split(":", 1) for part in self.signatures.get("bleu", "").split("|") if ":" in part)
        return {"tokenize": said.get("tok", "13a"), "lowercase": said.get("case") == "lc"}


def read_evaluated(folder: Path) -> Evaluated:
    where = folder.name
    stored = read_json(folder / "scores.json", f"{where}/scores.json")
    scores, signatures = scores_of(stored, f"{where}/scores.json")
    sentences = read_sentences(folder / "sentences.jsonl", f"{where}/sentences.jsonl")
    if stored.get("sentences") != len(sentences):
        raise UnreadableError(
            f"{where}/scores.json is of {stored.get('sentences')} sentences, sentences.jsonl of {len(sentences)}; "
            "evaluate it again"
        )
    digest = digest_of((one.source, one.reference, *one.further_references) for one in sentences)
    weights = checkpoint_of(stored.get("members"))
    counted = stored.get("counted") if isinstance(stored.get("counted"), dict) else {}
    aligned = _alignment_counts(stored.get("alignment_counts"), len(sentences), f"{where}/scores.json")
    found = Evaluated(
        scores,
        signatures,
        searched(stored),
        sentences,
        folder / "alignments.npz",
        digest,
        weights,
        counted,
        aligned,
        other_text(stored, where),
    )
    if found.counting["tokenize"] not in AT_HAND:
        try:
            _ = found.statistics  # counted once, and kept
        except Exception as error:  # each tokeniser fails in a way of its own
            tok = found.counting["tokenize"]
            raise UnreadableError(f"BLEU with tok:{tok} cannot be counted here ({first_line(error)})") from None
    return found


def searched(stored: Mapping[str, Any]) -> dict[str, Any]:
    """How, setting by setting: search.beam, unknown, …; and by which checkpoint."""
    search = stored.get("search") if isinstance(stored.get("search"), dict) else {}
    how = {f"search.{key}": value for key, value in search.items()}
    weights = checkpoint_of(stored.get("members"))
    by = {"checkpoint": weights[0]} if weights else {}
    return how | by | {name: stored[name] for name in BESIDE if name in stored}


def other_text(stored: Mapping[str, Any], test: str) -> list[str]:
    told = stored.get("data_overrides")
    return changes_of_test(test, map(str, told)) if isinstance(told, list) else []


def _alignment_counts(rows: Any, sentences: int, where: str) -> np.ndarray | None:
    """As they were written, a line a sentence; runs evaluated earlier have none."""
    if rows is None:
        return None
    try:
        counts = np.array([[float(value) for value in row.split()] for row in rows])
    except (AttributeError, TypeError, ValueError):
        counts = np.empty(0)
    if counts.shape != (sentences, 2 * COUNTS) or not np.isfinite(counts).all():
        raise UnreadableError(f"{where}: alignment_counts are not {2 * COUNTS} numbers a sentence; evaluate it again")
    return counts


def checkpoint_of(members: Any) -> tuple[str, int] | None:
    """Its name and step, where there is but one and both are said."""
    match members:
        case [{"checkpoint": str(path), "step": int(step)}]:
            return Path(path).name, step
    return None


def scores_of(stored: Mapping[str, Any], where: str) -> tuple[dict[str, float], dict[str, str]]:
    """What scores.json says, and how it was counted."""
    given = stored.get("scores")
    if not isinstance(given, Mapping):
        raise UnreadableError(f"{where} holds no scores; evaluate it again")
    values = {name: one.get("score") if isinstance(one, Mapping) else one for name, one in given.items()}
    scores = {name: float(value) for name, value in values.items() if is_number(value)}
    if "bleu" not in scores:
        raise UnreadableError(f"{where} holds no BLEU; evaluate it again")
    signed = {name: one.get("signature") for name, one in given.items() if isinstance(one, Mapping)}
    return scores, {name: signature for name, signature in signed.items() if isinstance(signature, str)}


def read_sentences(path: Path, where: str) -> list[Sentence]:
    if not path.is_file():
        raise UnreadableError(f"has no {where}: evaluate it again")
    sentences = []
    for number, line in enumerate(read_text(path, where).split("\n"), start=1):
        if line:
            try:
                sentences.append(_sentence(json.loads(line)))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise UnreadableError(f"{where}, line {number}: not a sentence's JSON; evaluate it again") from None
    if not sentences:
        raise UnreadableError(f"{where} is empty; evaluate it again")
    if len({len(sentence.further_references) for sentence in sentences}) > 1:
        raise UnreadableError(f"{where}: not all sentences have as many references; evaluate it again")
    return sentences


def _sentence(stored: Mapping[str, Any]) -> Sentence:
    texts = [stored[key] for key in ("source", "reference", "hypothesis")]
    words = [[str(word) for word in stored.get(key) or ()] for key in ("source_words", "words")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    further = [str(line) for line in stored.get("further_references") or ()]
    return Sentence(*texts, *words, further)


def digest_of(pairs: Iterator[tuple[str, ...]]) -> str:
    digest = blake2b(digest_size=6)
    for pair in pairs:
        digest.update(json.dumps(pair).encode())
    return digest.hexdigest()
