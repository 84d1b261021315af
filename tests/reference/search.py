"""Exhaustive, greedy and literal beam search, for tiny vocabularies.

A sequence is a tuple of ids. It ends with `end`, or has `max_length` symbols and no `end`; its length counts `end`.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

# prefix y_1 … y_{i−1} → log p(y_i | prefix)
NextLogProbabilities = Callable[[tuple[int, ...]], Tensor | Sequence[float]]


def all_sequences(
    next_log_probabilities: NextLogProbabilities,
    *,
    end: int,
    max_length: int,
    allow_unfinished: bool = True,
    prefix: tuple[int, ...] = (),
    log_probability: float = 0.0,
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield every sequence that begins with `prefix`, with its log-probability, in the order of the ids."""
    if prefix and prefix[-1] == end:
        yield prefix, log_probability
        return
    if len(prefix) == max_length:
        if allow_unfinished:
            yield prefix, log_probability
        return
    log_probabilities = next_log_probabilities(prefix)
    for symbol in range(len(log_probabilities)):
        yield from all_sequences(
            next_log_probabilities,
            end=end,
            max_length=max_length,
            allow_unfinished=allow_unfinished,
            prefix=(*prefix, symbol),
            log_probability=log_probability + float(log_probabilities[symbol]),
        )


def exhaustive(
    next_log_probabilities: NextLogProbabilities,
    *,
    end: int,
    max_length: int,
    alpha: float = 0.0,
    allow_unfinished: bool = True,
) -> tuple[tuple[int, ...], float]:
    """Return the best sequence and its score log p / length**alpha; of equal ones, the first by ids."""
    best: tuple[int, ...] = ()
    best_score = float("-inf")
    for sequence, log_probability in all_sequences(
        next_log_probabilities, end=end, max_length=max_length, allow_unfinished=allow_unfinished
    ):
        score = log_probability / len(sequence) ** alpha
        if score > best_score:
            best, best_score = sequence, score
    return best, best_score


def greedy(
    next_log_probabilities: NextLogProbabilities, *, end: int, max_length: int, alpha: float = 0.0
) -> tuple[tuple[int, ...], float]:
    """Return the sequence of the most probable symbols and its score; of equal symbols, the smallest id."""
    sequence: tuple[int, ...] = ()
    log_probability = 0.0
    while len(sequence) < max_length and not (sequence and sequence[-1] == end):
        log_probabilities = next_log_probabilities(sequence)
        choice = 0
        for symbol in range(len(log_probabilities)):
            if float(log_probabilities[symbol]) > float(log_probabilities[choice]):
                choice = symbol
        sequence = (*sequence, choice)
        log_probability += float(log_probabilities[choice])
    return sequence, log_probability / len(sequence) ** alpha


def literal_beam_search(
    next_step: Callable[[tuple[int, ...]], tuple[Sequence[float], Sequence[float]]],
    *,
    beam: int,
    end: int,
    never: Sequence[int],
    shortest: int,
    longest: int,
    norm: Callable[[int], float],
    coverage_penalty: float = 0.0,
    ngram: int = 0,
    prefix: tuple[int, ...] = (),
) -> list[tuple[tuple[int, ...], float, float]]:
    """Return every finished (sequence, score, log-probability), best first; it never stops before `longest`.

    `next_step` maps a prefix to log p of every symbol, and to the attention over the source.
    Of the 2 * beam best continuations, those among the first `beam` that end are finished.
    The first `beam` that do not end stay alive. A beam of 1 is greedy search.
    """
    live = [((), 0.0)]
    finished = []
    for step in range(longest):
        candidates = []
        for words, log_probability in live:
            logs, _ = next_step(words)
            for symbol in allowed_symbols(words, len(logs), end, never, shortest, ngram, prefix):
                candidates.append(((*words, symbol), log_probability + float(logs[symbol])))
        candidates = sorted(candidates, key=lambda candidate: -candidate[1])[: 2 * beam]
        ended = [words[-1] == end or step + 1 == longest for words, _ in candidates]
        finished += [candidate for candidate, over in zip(candidates[:beam], ended, strict=False) if over]
        if beam == 1 and finished:
            break
        live = [candidate for candidate, over in zip(candidates, ended, strict=True) if not over][:beam]
    scored = [
        (words, log / norm(len(words)) + coverage_penalty * coverage_score(next_step, words), log)
        for words, log in finished
    ]
    return sorted(scored, key=lambda one: -one[1])


def allowed_symbols(words, symbols, end, never, shortest, ngram, prefix) -> list[int]:
    """Return the symbols that may follow `words`."""
    if len(words) < len(prefix):
        return [prefix[len(words)]]
    seen_ngrams = {words[at : at + ngram] for at in range(len(words) - ngram + 1)} if ngram else set()
    return [
        symbol
        for symbol in range(symbols)
        if symbol not in never
        and not (symbol == end and len(words) < shortest)
        and (symbol == end or (*words, symbol)[len(words) + 1 - ngram :] not in seen_ngrams)
    ]


def coverage_score(next_step, words: tuple[int, ...]) -> float:
    """Return Σ_j log min(Σ_i α_ij, 1), where the sum is at least 1e-4."""
    attentions = [next_step(words[:step])[1] for step in range(len(words))]
    return sum(math.log(min(max(sum(column), 1e-4), 1.0)) for column in zip(*attentions, strict=True))
