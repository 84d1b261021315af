"""Precision, recall and error rate of word alignments against gold alignments (Och & Ney 2003).

SAER is the error rate of attention weights instead of links (Tu 2016, §5.1).
"""

from collections.abc import Sequence

import numpy as np

from nmt.data.word_alignments import Gold, Links

MEASURES = ("aer", "saer")
COUNTS = 4  # of each measure: |A|, |S|, |A ∩ S|, |A ∩ P|, for links A, sure links S and possible links P


def link_scores(links: Sequence[Links], gold: Sequence[Gold]) -> dict[str, float]:
    """Return AER, precision, recall and F1 of a text's links, in per cent."""
    totals = sum((np.array(count_links(*pair)) for pair in zip(links, gold, strict=True)), np.zeros(COUNTS))
    proposed, sure, on_sure, on_possible = totals
    precision, recall = _percentage(on_possible, proposed), _percentage(on_sure, sure)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"aer": float(error_rate(totals)), "precision": precision, "recall": recall, "f1": f1}


def count_links(links: Links, gold: Gold) -> list[float]:
    """Return the counts of a sentence's links: |A|, |S|, |A ∩ S|, |A ∩ P|."""
    return [len(links), len(gold.sure), len(links & gold.sure), len(links & (gold.sure | gold.possible))]


def count_weights(weights: np.ndarray, gold: Gold) -> list[float]:
    """Return the same counts of (target, source) weights, where |·| is the sum of weights."""
    on_sure, on_possible = (
        sum(float(weights[target, source]) for source, target in links)
        for links in (gold.sure, gold.sure | gold.possible)
    )
    return [float(weights.sum()), len(gold.sure), on_sure, on_possible]


def error_rate(totals: np.ndarray) -> np.ndarray:
    """Return error rates in per cent from summed counts: (…, `COUNTS`) → (…); 0 if there are no links at all."""
    proposed, sure, on_sure, on_possible = np.moveaxis(totals, -1, 0)
    # AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
    return 100 - 100 * np.where(proposed + sure > 0, (on_sure + on_possible) / np.maximum(proposed + sure, 1e-30), 1.0)


def compute_measures(totals: np.ndarray) -> np.ndarray:
    """Return `MEASURES` from the counts of links, then of weights: (…, 2 · `COUNTS`) → (…, measures)."""
    return np.stack([error_rate(totals[..., :COUNTS]), error_rate(totals[..., COUNTS:])], axis=-1)


def _percentage(part: float, total: float) -> float:
    """Return the percentage; 100 if the total is 0, because then nothing is wrong."""
    return float(100 * part / total) if total else 100.0
