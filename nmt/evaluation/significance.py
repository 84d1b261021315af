"""Whether one system is better than another, or only luckier: by sentences of a test set, and by runs over seeds.

A system is one run or several that differ by seed only, (run, sentence, 10) of `sentence_statistics`; its BLEU is their
mean.

sacrebleu's paired tests count only differences greater than the one found: a system against itself comes out as
significant (p = 1 / (resamples + 1)), and by randomisation two that differ in one sentence. Here as great a difference
counts too, and on both sides.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import atan, comb, cos, pi, sin, sqrt
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np

from nmt.evaluation.bleu import bleu_of, mean_bleu

ROUNDING = 1e-9  # of BLEU, below which scores are the same

Scored = Mapping[Hashable, float]  # each run that was trained: a system's score of it


class Comparison(NamedTuple):
    """BLEU, and how far from the baseline's, with 95 % intervals over sentences; p is two-sided, None where nothing can
    be said.

    `better` and `worse` are the sentences that raise and lower the baseline's BLEU where they replace its own.
    """

    name: str
    bleu: float
    low: float | None
    high: float | None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_bootstrap: float | None = None
    p_randomization: float | None = None
    better: int | None = None
    worse: int | None = None
    p_sign: float | None = None


class Rate(NamedTuple):
    """Mean over runs; difference to the baseline's, and p as in `Comparison`."""

    value: float
    difference: float
    p: float | None


class Spread(NamedTuple):
    """Standard deviation over seeds, and of how many degrees of freedom it is known."""

    deviation: float
    degrees: int


def compare_systems(
    own: np.ndarray, systems: dict[str, np.ndarray], *, resamples: int = 1000, together: int = 1, seed: int = 12345
) -> list[Comparison]:
    """The baseline, then each system against it.

    All by the same draws, so that what is compared is the systems; `together` sentences, one after another, are drawn
    and dealt out as one.
    """
    sentences, own_blocks = own.shape[1], blocks(own, together)
    count = own_blocks.shape[1]
    drawn = draws(count, resamples, seed)
    own_samples = mean_bleu(drawn @ own_blocks)
    found = [Comparison("baseline", _corpus_bleu(own), *interval(own_samples, count))]
    for name, other in systems.items():
        if other.shape[1] != sentences:
            raise ValueError(f"{name}: {other.shape[1]} sentences but {sentences} of the baseline")
        other_blocks = blocks(other, together)
        samples = mean_bleu(drawn @ other_blocks)
        bleu, differences = _corpus_bleu(other), samples - own_samples
        difference = bleu - found[0].bleu
        better, worse = replaced_sentences(own, other)
        found.append(
            Comparison(
                name,
                bleu,
                *interval(samples, count),
                difference,
                *interval(differences, count),
                p_bootstrap=bootstrap_p(differences, difference) if count > 1 else None,
                p_randomization=randomization_p(own_blocks, other_blocks, resamples, seed),
                better=better,
                worse=worse,
                p_sign=sign_test_p(better, worse),
            )
        )
    return found


def compare_rates(
    own: np.ndarray,
    systems: dict[str, np.ndarray],
    rates: Callable[[np.ndarray], np.ndarray],
    *,
    resamples: int = 1000,
    together: int = 1,
    seed: int = 12345,
) -> dict[str, list[Rate]]:
    """Of each system the rates that `rates` makes of the sums over sentences of what is counted in each, (run,
    sentence, counts); tested like BLEU."""
    own_blocks = blocks(own, together)
    count = own_blocks.shape[1]
    drawn = draws(count, resamples, seed)
    own_rates, own_samples = rates(own.sum(1)).mean(0), rates(drawn @ own_blocks).mean(0)
    found = {}
    for name, other in systems.items():
        values, samples = rates(other.sum(1)).mean(0), rates(drawn @ blocks(other, together)).mean(0)
        found[name] = [
            Rate(float(value), float(value - base), bootstrap_p(of_rate, value - base) if count > 1 else None)
            for value, base, of_rate in zip(values, own_rates, (samples - own_samples).T, strict=True)
        ]
    return found


def blocks(counted: np.ndarray, together: int) -> np.ndarray:
    """(run, sentence, counts) summed over so many sentences, one after another; the last have what is left. Sentences
    of a document are alike, and to draw each by itself takes them for more than they are (Carlstein 1986)."""
    return np.add.reduceat(counted, range(0, counted.shape[1], together), axis=1)


@lru_cache(maxsize=8)
def draws(sentences: int, resamples: int, seed: int) -> np.ndarray:
    """(resample, sentence): how often each sentence is drawn into a test set of the same size."""
    drawn = np.random.default_rng(seed).multinomial(sentences, np.full(sentences, 1 / sentences), size=resamples)
    drawn.flags.writeable = False
    return drawn


def interval(samples: np.ndarray, sentences: int) -> tuple[float, float] | tuple[None, None]:
    """In which 95 % lie; drawn from one sentence they all are the same and say nothing."""
    if sentences < 2:
        return None, None
    low, high = np.percentile(samples, (2.5, 97.5))
    return float(low), float(high)


def bootstrap_p(differences: np.ndarray, difference: float) -> float:
    """How often test sets drawn anew are as far from their mean as no difference is (Riezler & Maxwell 2005)."""
    return _share(np.abs(differences - differences.mean()), abs(difference))


def randomization_p(own: np.ndarray, other: np.ndarray, trials: int, seed: int) -> float:
    """How often systems are as far apart whose translations of a sentence are dealt out anew among all their runs."""
    runs = np.concatenate([own, other]).astype(float)  # products of whole numbers are slow, these as exact
    dealt = _dealt(len(runs), own.shape[1], trials, seed)
    totals = np.array([sum((places == run) @ said for run, said in enumerate(runs)) for places in dealt])
    apart = mean_bleu(totals[: len(own)]) - mean_bleu(totals[len(own) :])
    return _share(np.abs(apart), abs(_corpus_bleu(other) - _corpus_bleu(own)))


@lru_cache(maxsize=2)
def _dealt(runs: int, sentences: int, trials: int, seed: int) -> np.ndarray:
    """(place, trial, sentence): whose translation of a sentence comes to a run's place."""
    in_order = np.broadcast_to(np.arange(runs, dtype=np.min_scalar_type(runs)), (trials, sentences, runs))
    return np.random.default_rng(seed).permuted(in_order, axis=2).transpose(2, 0, 1)


def _share(values: np.ndarray, least: float) -> float:
    """The one found counts as a draw as well: p is never zero."""
    return (int((values >= least - ROUNDING).sum()) + 1) / (len(values) + 1)


def replaced_sentences(own: np.ndarray, other: np.ndarray) -> tuple[int, int]:
    """How many sentences of the other make the corpus' BLEU better, and worse, in place of its own (Collins 2005).

    The corpus of several runs is all they said, as often as is needed for both to have said as much.
    """
    ours, theirs = own.sum(0) * len(other), other.sum(0) * len(own)
    whole = ours.sum(0)
    changes = bleu_of(whole - ours + theirs) - float(bleu_of(whole))
    return int((changes > 0).sum()), int((changes < 0).sum())


def sign_test_p(better: int, worse: int) -> float:
    """Exact and two-sided; what is neither does not count."""
    tosses = better + worse
    tail = sum(comb(tosses, few) for few in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**tosses)


def _corpus_bleu(statistics: np.ndarray) -> float:
    return float(mean_bleu(statistics.sum(1)))


def spread_over_seeds(systems: Iterable[Scored]) -> Spread | None:
    """The standard deviation over seeds, pooled over all systems; None where no system has runs that differ.

    A run that several systems score, each in its way, was trained once: it counts once, with its mean square.
    """
    squares: dict[Hashable, list[float]] = defaultdict(list)
    groups: list[set[Hashable]] = []  # of runs that systems share, of each a mean is taken
    for system in systems:
        if len(system) > 1:
            middle = mean(system.values())
            for run, value in system.items():
                squares[run].append((value - middle) ** 2)
            shared = [group for group in groups if group & system.keys()]
            groups = [group for group in groups if group not in shared] + [set(system).union(*shared)]
    total, degrees = sum(map(mean, squares.values())), len(squares) - len(groups)
    return Spread(sqrt(total / degrees), degrees) if total > ROUNDING**2 else None


def over_seeds(own: Scored, systems: Mapping[str, Scored]) -> dict[str, float | None]:
    """p of each system's difference to the baseline, as far as training anew goes: Student's t, two-sided.

    The spread over seeds is taken to be the same in all systems, as in an analysis of variance: few runs of each then
    tell together what it is. Scores of the baseline's own runs are no other training: the spread of their differences,
    run by run, says how far training anew would move them.
    """
    spread = spread_over_seeds([own, *systems.values()])
    return {
        name: _of_the_same_runs(own, system) if own.keys() & system.keys() else _of_other_runs(own, system, spread)
        for name, system in systems.items()
    }


def _of_other_runs(own: Scored, system: Scored, spread: Spread | None) -> float | None:
    if spread is None or not own or not system:
        return None
    difference = mean(system.values()) - mean(own.values())
    return student_p(difference / (spread.deviation * sqrt(1 / len(system) + 1 / len(own))), spread.degrees)


def _of_the_same_runs(own: Scored, system: Scored) -> float | None:
    """Student's t of pairs; None where some run is the one's alone, or all differ by as much."""
    if own.keys() != system.keys() or len(own) < 2:
        return None
    differences = [system[run] - value for run, value in own.items()]
    deviation = stdev(differences)
    if deviation < ROUNDING:
        return None
    return student_p(mean(differences) * sqrt(len(differences)) / deviation, len(differences) - 1)


def student_p(t: float, degrees: int) -> float:
    """How often |t| is as large by chance; Abramowitz & Stegun 26.7.3, 26.7.4."""
    angle, odd = atan(abs(t) / sqrt(degrees)), degrees % 2
    term = cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(3 if odd else 2, degrees, 2):
        term *= cos(angle) ** 2 * (power - 1) / power
        total += term
    within = (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
    return max(0.0, 1 - within)


def holm(values: Sequence[float]) -> list[float]:
    """p corrected for how many there are (Holm 1979): the chance that any below one's bound is there by luck."""
    corrected, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, values[place] * (len(values) - rank)))
        corrected[place] = highest
    return corrected
