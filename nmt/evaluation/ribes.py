"""RIBES, a score of word order (Isozaki et al. 2010)."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from math import exp

from nmt.evaluation.bleu import Score, _checked, counter

ALPHA, BETA = 0.25, 0.10  # RIBES: how much precision and brevity count beside the order of words
CONTEXT = 50  # words beside a word, by which RIBES tells where it stands


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
