"""BLEU and its kin by sacrebleu, always with the signature that says how it was counted; RIBES, which it lacks.

References are a list of lines, or several such lists, one for each translator.
"""

import string
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from math import exp
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Score as MetricScore
from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEUScore

from nmt.errors import ConfigurationError

ALPHA, BETA = 0.25, 0.10  # RIBES: how much precision and brevity count beside the order of words
CONTEXT = 50  # words beside a word, by which RIBES tells where it stands
ORDER = 4  # of BLEU's n-grams
ASCII_LOWERCASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Score(NamedTuple):
    score: float
    signature: str
    detail: str


class NistBLEU(BLEU):
    """mteval-v11b: the shortest reference decides on brevity, nothing is smoothed, and only A–Z are lowercased.

    Its words are those of `13a`: mteval-v13a took over v11b's tokenisation, but lets the closest reference decide.
    """

    def __init__(self):
        super().__init__(tokenize="13a", smooth_method="none", force=True)

    def _preprocess_segment(self, sent: str) -> str:
        return super()._preprocess_segment(sent.translate(ASCII_LOWERCASE))

    def _get_closest_ref_len(self, hyp_len: int, ref_lens: list[int]) -> int:
        return min(ref_lens)

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.update("case", "lc-ascii")
        signature.update("bp", "shortest")
        return signature


def counter(tokenize: str, lowercase: bool) -> BLEU:
    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigurationError(f"tokenize={tokenize}: choose {', '.join(BLEU.TOKENIZERS)}")
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError) as error:  # a package that is not installed; told in several lines
        raise ConfigurationError(f"tokenize={tokenize}: {' '.join(str(error).split())}") from error


FLAVOURS = {
    "13a": lambda: BLEU(tokenize="13a", force=True),  # mteval-v13a, cased
    "lowercase": lambda: BLEU(tokenize="13a", lowercase=True, force=True),
    "nist": NistBLEU,
    "zh": lambda: BLEU(tokenize="zh", force=True),
    "char": lambda: BLEU(tokenize="char", force=True),
}
WITHOUT_SPACES = {"zh": ("zh", "char"), "ja": ("char",)}  # languages, and what their flavours are
WITH_SPACES = ("13a", "lowercase", "nist")


def corpus_bleu(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str = "none", lowercase: bool = False
) -> Score:
    """`tokenize: none` compares the words as they stand: for text that is tokenised already."""
    return _scored(counter(tokenize, lowercase), hypotheses, references)


def flavoured_bleu(flavour: str, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    """BLEU of text as a person would read it, counted as a named script does."""
    return _scored(FLAVOURS[flavour](), hypotheses, references)


def all_scores(
    hypotheses: list[str],
    references: list[list[str]],
    *,
    language: str,
    tokenize: str,
    lowercase: bool,
) -> dict[str, Score]:
    """Of detokenised text in a language; `bleu` and what is made of it count as `tokenize` and `lowercase` say."""
    spaceless = language in WITHOUT_SPACES
    ter = TER(case_sensitive=not lowercase, normalized=spaceless, asian_support=spaceless)
    metric = counter(tokenize, lowercase)
    bleu = metric.corpus_score(hypotheses, _checked(hypotheses, references))
    scores = {
        "bleu": _as_score(metric, bleu),
        **{
            f"bleu_{flavour}": flavoured_bleu(flavour, hypotheses, references)
            for flavour in WITHOUT_SPACES.get(language, WITH_SPACES)
        },
        "chrf": _scored(CHRF(lowercase=lowercase), hypotheses, references),
        "ter": _scored(ter, hypotheses, references),
        "ribes": ribes(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
    }
    signature, ter_signature = scores["bleu"].signature, scores["ter"].signature
    lengths = f"{bleu.sys_len} words, {bleu.ref_len} in the references"
    return scores | {
        "tb": Score((scores["ter"].score - bleu.score) / 2, f"{ter_signature} {signature}", "(TER − BLEU) / 2"),
        "brevity_penalty": Score(bleu.bp, signature, lengths),
        "length_ratio": Score(bleu.ratio, signature, lengths),
    }


def sentence_statistics(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str, lowercase: bool
) -> np.ndarray:
    """(sentence, 10): words, words of the closest reference, matching n-grams, n-grams; their sums make BLEU."""
    metric = counter(tokenize, lowercase)
    return np.array(metric._extract_corpus_statistics(hypotheses, _checked(hypotheses, references)))


def words_of(lines: list[str], *, tokenize: str, lowercase: bool) -> list[list[str]]:
    """As BLEU counts them."""
    metric = counter(tokenize, lowercase)
    return [metric._preprocess_segment(line.rstrip()).split() for line in lines]


def bleu_score(totals: np.ndarray) -> BLEUScore:
    """Of summed statistics, smoothed as sacrebleu does."""
    said, wanted, *counts = np.asarray(totals).tolist()
    return BLEU.compute_bleu(counts[:ORDER], counts[ORDER:], int(said), int(wanted), smooth_method="exp")


def bleu_of(totals: np.ndarray) -> np.ndarray:
    """(…, 10) → BLEU of each corpus."""
    return np.array([bleu_score(row).score for row in totals.reshape(-1, 10)]).reshape(totals.shape[:-1])


def mean_bleu(totals: np.ndarray) -> np.ndarray:
    """(run, …, 10) → BLEU, the mean over runs."""
    return bleu_of(totals).mean(0)


def ribes(
    hypotheses: list[str], references: list[str] | list[list[str]], *, tokenize: str = "none", lowercase: bool = False
) -> Score:
    """Rank correlation of the words' order (Isozaki 2010), in per cent: by the best reference, mean over sentences.

    As RIBES.py 1.03 counts it, but that what `CONTEXT` words do not tell apart is left out: a word said 3,000 times
    would take hours. Sentences without any reference are left out.
    """
    split = counter(tokenize, lowercase)._preprocess_segment
    lists, found = _checked(hypotheses, references), []
    for hypothesis, *wanted in zip(hypotheses, *lists, strict=True):
        said = split(hypothesis).split()
        if wanted := [words for words in (split(reference).split() for reference in wanted if reference) if words]:
            found.append(max(_sentence_ribes(said, words) for words in wanted))
    score = 100 * sum(found) / len(found) if found else 0.0
    case = "lc" if lowercase else "mixed"
    signature = f"nrefs:{len(lists)}|case:{case}|tok:{tokenize}|alpha:{ALPHA:.2f}|beta:{BETA:.2f}"
    return Score(score, signature, f"RIBES = {score:.2f} over {len(found)} sentences")


def _sentence_ribes(hypothesis: list[str], reference: list[str]) -> float:
    ranks = _ranks(hypothesis, reference)
    if not ranks or len(ranks) == 1 < len(reference):
        return 0.0  # one word has no order, unless it is all that was asked for
    pairs = [first < second for first, second in combinations(ranks, 2)]
    ascending = sum(pairs) / len(pairs) if pairs else 1.0
    brevity = min(1.0, exp(1 - len(reference) / len(hypothesis)))
    return ascending * (len(ranks) / len(hypothesis)) ** ALPHA * brevity**BETA


def _ranks(hypothesis: list[str], reference: list[str]) -> list[int]:
    """Where the hypothesis' words stand in the reference; words that several places could be meant by are left out."""

    @cache
    def of_size(size: int) -> tuple[Counter, dict[tuple[str, ...], list[int]]]:
        return Counter(ngrams(hypothesis, size)), _places(reference, size)

    places = (_place(position, hypothesis, of_size) for position in range(len(hypothesis)))
    return [place for place in places if place is not None]


def _place(position: int, hypothesis: list[str], of_size: Callable) -> int | None:
    """By the shortest n-gram that ends or else begins with the word and stands once in both."""
    for size in range(1, min(len(hypothesis), CONTEXT) + 1):
        said, places = of_size(size)
        known = False
        for start in (position - size + 1, position):
            if start < 0 or start + size > len(hypothesis):
                continue
            gram = tuple(hypothesis[start : start + size])
            if said[gram] == len(places.get(gram, ())) == 1:
                return places[gram][0] + position - start
            known |= gram in places
        if not known:
            return None  # nor is any longer one
    return None


def ngrams(words: list[str], size: int) -> list[tuple[str, ...]]:
    """In order."""
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def _places(words: list[str], size: int) -> dict[tuple[str, ...], list[int]]:
    places: dict[tuple[str, ...], list[int]] = {}
    for start, gram in enumerate(ngrams(words, size)):
        places.setdefault(gram, []).append(start)
    return places


def _scored(metric: BLEU | CHRF | TER, hypotheses: list[str], references: list[str] | list[list[str]]) -> Score:
    return _as_score(metric, metric.corpus_score(hypotheses, _checked(hypotheses, references)))


def _as_score(metric: BLEU | CHRF | TER, result: MetricScore) -> Score:
    return Score(result.score, str(metric.get_signature()), str(result))


def _checked(hypotheses: list[str], references: list[str] | list[list[str]]) -> list[list[str | None]]:
    """Several lists of references: sacrebleu scores as many sentences as the shortest list has, and says nothing. A
    blank line is no reference where the sentence has another; sacrebleu takes it for one of no words."""
    lists = [references] if not references or isinstance(references[0], str) else references
    for number, lines in enumerate(lists, start=1):
        if len(lines) != len(hypotheses):
            which = f" in list {number} of {len(lists)}" if len(lists) > 1 else ""
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(lines)} references{which}")
    if not hypotheses:
        raise ValueError("0 hypotheses: there is nothing to score")
    if len(lists) == 1:
        return lists
    of_sentences = ([line if line.strip() else None for line in given] for given in zip(*lists, strict=True))
    there = [given if any(given) else [""] * len(given) for given in of_sentences]
    return [list(lines) for lines in zip(*there, strict=True)]
