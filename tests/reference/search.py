"""Search by looking at everything, and greedy search: what beam search is compared with on tiny vocabularies.

A sequence is a tuple of ids; it ends with `end`, or has `max_length` symbols and no `end`.
Its length counts the end symbol.
"""

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

NextLogProbabilities = Callable[
    [tuple[int, ...]], Tensor | Sequence[float]
]  # prefix y_1 … y_{i−1} → log p(y_i | prefix)


def all_sequences(
    next_log_probabilities: NextLogProbabilities,
    *,
    end: int,
    max_length: int,
    allow_unfinished: bool = True,
    prefix: tuple[int, ...] = (),
    log_probability: float = 0.0,
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every sequence that continues `prefix`, with its log-probability, in the order of the ids."""
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
    """The best sequence and its score log p / length**alpha; the first in the order of the ids where equal."""
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
    """The most probable symbol at each step, and the score of what that gives; the smallest id where two are equal."""
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
