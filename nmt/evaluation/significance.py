"""Significance of differences between systems: over the sentences of a test set, and over training seeds.

A system is one run, or several that differ only by seed: (run, sentence, counts) of `sentence_statistics`. Its BLEU is
the mean over runs.

sacrebleu's paired tests count only resamples whose difference is greater than the observed one. With them, a system is
significantly better than itself, with p = 1 / (resamples + 1). The tests here also count equal differences, on both
sides.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import atan, comb, cos, pi, sin, sqrt
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np

from nmt.evaluation.bleu import bleu_from_totals, mean_bleu

MIN_SENTENCES = 20  # for p and intervals by the bootstrap, which are too small with fewer
ROUNDING = 1e-9  # scores that differ by less are equal

RunScores = Mapping[Hashable, float]  # a system's score of each trained run


class Comparison(NamedTuple):
    """BLEU and its difference to the baseline, with 95 % intervals over sentences; p is two-sided.

    `better` and `worse` count sentences that raise or lower the baseline's BLEU when they replace its translation.
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
    """A rate's mean over runs, its difference to the baseline, and p by the bootstrap."""

    value: float
    difference: float
    p: float | None


class Spread(NamedTuple):
    """The standard deviation over seeds, and its degrees of freedom."""

    deviation: float
    degrees: int


def compare_systems(
    baseline: np.ndarray, systems: dict[str, np.ndarray], *, resamples: int = 1000, together: int = 1, seed: int = 12345
) -> list[Comparison]:
    """Compare the baseline with each system by the same resamples; the baseline is the first result.

    Args:
        baseline: Statistics of the baseline.
        systems: Statistics of each system.
        resamples: The number of resampled test sets.
        together: The number of consecutive sentences that are resampled as one block.
        seed: The seed of the resampling.
    """
    blocks = sum_blocks(baseline, together)
    count = blocks.shape[1]
    drawn = draws(count, resamples, seed)
    samples = mean_bleu(drawn @ blocks)
    bleu = _corpus_bleu(baseline)
    comparisons = [Comparison("baseline", bleu, *confidence_interval(samples, count))]
    for name, system in systems.items():
        if system.shape[1] != baseline.shape[1]:
            raise ValueError(f"{name}: {system.shape[1]} sentences but {baseline.shape[1]} of the baseline")
        system_blocks = sum_blocks(system, together)
        system_samples = mean_bleu(drawn @ system_blocks)
        system_bleu, differences = _corpus_bleu(system), system_samples - samples
        difference = system_bleu - bleu
        better, worse = replaced_sentences(baseline, system)
        comparisons.append(
            Comparison(
                name,
                system_bleu,
                *confidence_interval(system_samples, count),
                difference,
                *confidence_interval(differences, count),
                p_bootstrap=bootstrap_p(differences, difference, count),
                p_randomization=randomization_p(blocks, system_blocks, resamples, seed),
                better=better,
                worse=worse,
                p_sign=sign_test_p(better, worse),
            )
        )
    return comparisons


def compare_rates(
    baseline: np.ndarray,
    systems: dict[str, np.ndarray],
    rates: Callable[[np.ndarray], np.ndarray],
    *,
    resamples: int = 1000,
    together: int = 1,
    seed: int = 12345,
) -> dict[str, list[Rate]]:
    """Compare rates of each system with the baseline, by the same test as BLEU.

    Args:
        baseline: Counts of the baseline: (run, sentence, counts).
        systems: Counts of each system.
        rates: Makes rates from sums of counts over sentences: (…, counts) → (…, rates).
        resamples: The number of resampled test sets.
        together: The number of consecutive sentences that are resampled as one block.
        seed: The seed of the resampling.
    """
    blocks = sum_blocks(baseline, together)
    count = blocks.shape[1]
    drawn = draws(count, resamples, seed)
    baseline_rates, baseline_samples = rates(baseline.sum(1)).mean(0), rates(drawn @ blocks).mean(0)
    compared = {}
    for name, system in systems.items():
        values, samples = rates(system.sum(1)).mean(0), rates(drawn @ sum_blocks(system, together)).mean(0)
        compared[name] = [
            Rate(float(value), float(value - base), bootstrap_p(differences, value - base, count))
            for value, base, differences in zip(values, baseline_rates, (samples - baseline_samples).T, strict=True)
        ]
    return compared


def sum_blocks(counts: np.ndarray, size: int) -> np.ndarray:
    """Return the sums of blocks of consecutive sentences: (run, sentence, counts) → (run, block, counts).

    Sentences of one document are similar. To resample each by itself makes p too small (Carlstein 1986).
    """
    return np.add.reduceat(counts, range(0, counts.shape[1], size), axis=1)


def draws(sentences: int, resamples: int, seed: int) -> np.ndarray:
    """Resample test sets of the same size: (resample, sentence) how often each sentence is drawn."""
    drawn = np.random.default_rng(seed).multinomial(sentences, np.full(sentences, 1 / sentences), size=resamples)
    return drawn.astype(float)  # exact too, and faster to multiply than integers


def confidence_interval(samples: np.ndarray, sentences: int) -> tuple[float, float] | tuple[None, None]:
    """Return the bounds of 95 % of the samples; None for too few sentences."""
    if sentences < MIN_SENTENCES:
        return None, None
    low, high = np.percentile(samples, (2.5, 97.5))
    return float(low), float(high)


def bootstrap_p(differences: np.ndarray, difference: float, sentences: int) -> float | None:
    """Return how often resamples are as far from their mean as the difference is from 0 (Riezler & Maxwell 2005)."""
    if sentences < MIN_SENTENCES:
        return None
    return _share_at_least(np.abs(differences - differences.mean()), abs(difference))


def randomization_p(baseline: np.ndarray, system: np.ndarray, trials: int, seed: int) -> float:
    """Return how often systems differ as much if each sentence's translations are shuffled among all runs."""
    runs = np.concatenate([baseline, system]).astype(float)  # exact too, and faster to multiply than integers
    shuffled = _shuffle(len(runs), baseline.shape[1], trials, seed)
    totals = np.array([sum((places == run) @ counts for run, counts in enumerate(runs)) for places in shuffled])
    differences = mean_bleu(totals[: len(baseline)]) - mean_bleu(totals[len(baseline) :])
    return _share_at_least(np.abs(differences), abs(_corpus_bleu(system) - _corpus_bleu(baseline)))


@lru_cache(maxsize=2)
def _shuffle(runs: int, sentences: int, trials: int, seed: int) -> np.ndarray:
    """Return (place, trial, sentence): the run whose translation of the sentence comes to a place."""
    in_order = np.broadcast_to(np.arange(runs, dtype=np.min_scalar_type(runs)), (trials, sentences, runs))
    return np.random.default_rng(seed).permuted(in_order, axis=2).transpose(2, 0, 1)


def _share_at_least(values: np.ndarray, minimum: float) -> float:
    """Return the share of values that reach a minimum; the observed value counts too, so that p is never zero."""
    return (int((values >= minimum - ROUNDING).sum()) + 1) / (len(values) + 1)


def replaced_sentences(baseline: np.ndarray, system: np.ndarray) -> tuple[int, int]:
    """Count the sentences that make the corpus BLEU better, and worse, if they replace the baseline's (Collins 2005).

    The corpus has the translations of all runs, repeated so that both systems have equally many.
    """
    ours, theirs = baseline.sum(0) * len(system), system.sum(0) * len(baseline)
    total = ours.sum(0)
    before = float(bleu_from_totals(total))
    changes = bleu_from_totals(total - ours + theirs) - before
    least = ROUNDING * before  # because BLEU may be tiny: the baseline may have translated nothing
    return int((changes > least).sum()), int((changes < -least).sum())


def sign_test_p(better: int, worse: int) -> float:
    """Return p of the exact two-sided sign test."""
    tosses = better + worse
    tail = sum(comb(tosses, few) for few in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**tosses)


def _corpus_bleu(statistics: np.ndarray) -> float:
    return float(mean_bleu(statistics.sum(1)))


def spread_over_seeds(systems: Iterable[RunScores]) -> Spread | None:
    """Return the standard deviation over seeds, pooled over all systems; None if no system has runs that differ.

    The squared distance of a run to the mean of its system's n runs has the expectation σ² (1 − 1/n). A run that
    several systems score was trained once, so it counts once, with the average of its squares and of their (1 − 1/n).
    """
    squares: dict[Hashable, list[float]] = defaultdict(list)
    shares: dict[Hashable, list[float]] = defaultdict(list)  # 1 − 1/n
    for system in systems:
        if len(system) > 1:
            system_mean = mean(system.values())
            for run, value in system.items():
                squares[run].append((value - system_mean) ** 2)
                shares[run].append(1 - 1 / len(system))
    total, degrees = sum(map(mean, squares.values())), sum(map(mean, shares.values()))
    return Spread(sqrt(total / degrees), int(degrees + ROUNDING)) if total > ROUNDING**2 else None


def p_over_seeds(baseline: RunScores, systems: Mapping[str, RunScores]) -> dict[str, float | None]:
    """Return p of each system's difference to the baseline over training seeds: Student's t, two-sided.

    All systems are assumed to have the same spread over seeds, as in an analysis of variance. A few runs of each are
    then enough to estimate it. A system that scores the runs of the baseline is compared run by run instead.
    """
    spread = spread_over_seeds([baseline, *systems.values()])
    return {
        name: _paired_p(baseline, system) if baseline.keys() & system.keys() else _unpaired_p(baseline, system, spread)
        for name, system in systems.items()
    }


def _unpaired_p(baseline: RunScores, system: RunScores, spread: Spread | None) -> float | None:
    if spread is None or not baseline or not system:
        return None
    difference = mean(system.values()) - mean(baseline.values())
    return student_p(difference / (spread.deviation * sqrt(1 / len(system) + 1 / len(baseline))), spread.degrees)


def _paired_p(baseline: RunScores, system: RunScores) -> float | None:
    """Return p of the paired t-test; None if the runs are not the same, or all differences are equal."""
    if baseline.keys() != system.keys() or len(baseline) < 2:
        return None
    differences = [system[run] - value for run, value in baseline.items()]
    deviation = stdev(differences)
    if deviation < ROUNDING:
        return None
    return student_p(mean(differences) * sqrt(len(differences)) / deviation, len(differences) - 1)


def student_p(t: float, degrees: int) -> float:
    """Return the two-sided p of Student's t (Abramowitz & Stegun 26.7.3, 26.7.4)."""
    angle, odd = atan(abs(t) / sqrt(degrees)), degrees % 2
    term = cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(3 if odd else 2, degrees, 2):
        term *= cos(angle) ** 2 * (power - 1) / power
        total += term
    within = (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
    return max(0.0, 1 - within)


def holm(values: Sequence[float]) -> list[float]:
    """Return p values corrected for the number of comparisons (Holm 1979)."""
    corrected, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, values[place] * (len(values) - rank)))
        corrected[place] = highest
    return corrected
