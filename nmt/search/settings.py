"""The settings of a search, and the score that ranks hypotheses."""

from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.errors import ConfigurationError

EVALUATION_DEFAULTS = {  # other keys of conf/evaluate.yaml that change scores, with their defaults
    "unknown": "keep",
    "int8": False,
    "candidates": None,
    "weights": None,
    "average": "probabilities",
    "link_threshold": None,
}
LEAST_ATTENTION = 1e-4  # the least attention that a source position counts with, so that its logarithm is finite
CHOICES = {"normalization": ("words", "gnmt"), "stop": ("safe", "first"), "aligned_word": ("predicted", "read")}
RANGES = {  # the least and the greatest value
    "beam": (1, 1000),
    "nbest": (1, 100_000),  # of samples; of a search beam is the limit
    "length_penalty": (0, 10),
    "coverage_penalty": (0, 1000),
    "shortest_ratio": (0, inf),
    "longest_ratio": (0, 100),
    "longest_extra": (0, 10_000),
    "no_repeat_ngram": (0, inf),
    "temperature": (1e-3, 1000),  # logits divided by less can be infinite
    "top_k": (0, inf),
    "seed": (0, 2**62),  # each batch has the next one
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """The settings of a search.

    Hypotheses are ranked by log P / norm(length) + coverage_penalty · Σ_j log min(Σ_i α_ij, 1) (Wu 2016, eq. 14).
    Lengths are in words, or in BPE pieces, with the end symbol.

    Attributes:
        beam: The most live hypotheses of a sentence; 1 is greedy search.
        nbest: The number of translations to return.
        normalization: `words`: norm = length^α; `gnmt`: norm = ((5 + length)/6)^α.
        length_penalty: α; with `words` 0 ranks by log P, 1 by the mean log-probability.
        coverage_penalty: The weight of the coverage term.
        shortest_ratio: A translation has at least this many times the words of the source, end symbols not counted.
        longest_ratio: A translation has at most this many times the length of the source, and `longest_extra` more.
        longest_extra: See `longest_ratio`.
        no_repeat_ngram: No n-gram of this size is repeated; 0: any may be.
        stop: `safe`: stop when no live hypothesis can enter the `nbest`; `first`: stop when `beam` have ended.
        aligned_word: The word that the attention of a step belongs to: the word `predicted` there, or the word `read`,
            which is the step's input (Luong 2015, footnote 14).
        sample: Draw `nbest` translations instead of searching; `beam` is then not used.
        temperature: Logits are divided by it before drawing.
        top_k: Draw from the `top_k` most probable words; 0: from all.
        top_p: Draw from the fewest most probable words with this probability together.
        seed: Equal seeds draw the same words for equal batches.
    """

    beam: int = 5
    nbest: int = 1
    normalization: str = "words"
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    shortest_ratio: float = 0.0
    longest_ratio: float = 2.0
    longest_extra: int = 10
    no_repeat_ngram: int = 0
    stop: str = "safe"
    aligned_word: str = "predicted"
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self):
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                fix = " or ".join(f"{name}={choice}" for choice in choices)
                raise ConfigurationError(f"{name}={getattr(self, name)}: no such choice. Fix: {fix}")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is None or not value >= least:  # also true for NaN
                raise ConfigurationError(f"{name}={value}: must be at least {least}")
            if value > most:
                raise ConfigurationError(f"{name}={value}: must be at most {most}")
        if self.nbest > self.beam and not self.sample:
            raise ConfigurationError(f"nbest={self.nbest}: must be between 1 and beam={self.beam}")
        if self.longest_ratio + self.longest_extra <= 0:
            raise ConfigurationError("longest_ratio=0 longest_extra=0: no translation could have a word")
        if self.top_p is None or not 0 < self.top_p <= 1:
            raise ConfigurationError(f"top_p={self.top_p}: must be above 0 and at most 1")

    @property
    def width(self) -> int:
        """The most live hypotheses of a sentence."""
        return self.nbest if self.sample else self.beam

    def norm(self, length: float | Tensor) -> float | Tensor:
        """Return what the log-probability of a hypothesis of this length is divided by."""
        base = length if self.normalization == "words" else (5 + length) / 6
        return base**self.length_penalty

    def coverage_score(
        self, attended: Float[Tensor, "*hypotheses source"], padding: Tensor
    ) -> Float[Tensor, "*hypotheses"]:
        """Return the coverage term of the score, which is never above 0, from the attention each position received."""
        share = attended.clamp(LEAST_ATTENTION, 1.0).masked_fill(padding, 1.0)
        return self.coverage_penalty * share.log().sum(-1)

    def length_limits(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the fewest words, and the most symbols, of translations.

        Half of the words, rounded up, is the least of GroundHog and of nmt.matlab: both round down (words + 1) / 2.

        Args:
            words: The lengths of the sources without the end symbol.
            lengths: Their lengths as the encoder reads them.
        """
        longest = (self.longest_ratio * lengths + self.longest_extra).long().clamp(min=1)
        shortest = torch.minimum((self.shortest_ratio * words).ceil(), longest - 1).long()
        return shortest, longest
