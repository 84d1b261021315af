"""How to search: what a user may choose, and what hypotheses are ranked by."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.errors import ConfigurationError

BESIDE = {  # what else of evaluate.py's keys scores depend on, and how they are if nothing is said
    "unknown": "keep",
    "int8": False,
    "candidates": None,
    "weights": None,
    "average": "probabilities",
    "link_threshold": None,
}
LEAST_ATTENTION = 1e-4  # a source position that got less counts as having got this much: its logarithm stays finite


@dataclass(frozen=True, kw_only=True)
class Search:
    """Hypotheses are ranked by log P / norm + coverage_penalty · Σ_j log min(Σ_i α_ij, 1) (Wu 2016, eq. 14).

    normalization, α = length_penalty: `words` – norm = length**α (0: none, 1: the mean); `gnmt` – ((5 + length)/6)**α.
    The end symbol counts. A translation has at least `shortest_ratio` and at most `longest_ratio` times what the
    encoder reads (pieces, and the end symbol), and `longest_extra` more. No `no_repeat_ngram` words (or BPE pieces, of
    which lengths are counted too) in a row are said twice (0: may be).

    stop: `safe` – when no hypothesis still going on could come to rank among the `nbest`, however it continued;
    `first` – when `beam` have ended.

    sample: `nbest` translations are drawn, whatever `beam` is, not searched for: from the `top_k` most probable words
    (0: all), of these the fewest that have `top_p` of the probability, after logits / temperature. Equal seeds draw
    alike from equal batches.
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
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self):
        for name, choices in (("normalization", ("words", "gnmt")), ("stop", ("safe", "first"))):
            if getattr(self, name) not in choices:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose {' or '.join(choices)}")
        least = {
            "beam": 1,
            "nbest": 1,
            "length_penalty": 0,
            "coverage_penalty": 0,
            "shortest_ratio": 0,
            "longest_ratio": 0,
        }
        least |= {"longest_extra": 0, "no_repeat_ngram": 0, "top_k": 0}
        for name, least_value in least.items():
            if not getattr(self, name) >= least_value:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be at least {least_value}")
        if self.nbest > self.beam and not self.sample:
            raise ConfigurationError(f"nbest={self.nbest}: must be between 1 and beam={self.beam}")
        if self.longest_ratio + self.longest_extra <= 0:
            raise ConfigurationError("longest_ratio=0 longest_extra=0: no translation could have a word")
        if not self.temperature > 0:
            raise ConfigurationError(f"temperature={self.temperature}: must be above 0 (beam=1 is greedy search)")
        if not 0 < self.top_p <= 1:
            raise ConfigurationError(f"top_p={self.top_p}: must be above 0 and at most 1")

    @property
    def width(self) -> int:
        """The hypotheses of a sentence that go on beside one another."""
        return self.nbest if self.sample else self.beam

    def norm(self, length: float | Tensor) -> float | Tensor:
        per_word = length if self.normalization == "words" else (5 + length) / 6
        return per_word**self.length_penalty

    def left_out(
        self, attended: Float[Tensor, "*hypotheses source"], padding: Tensor
    ) -> Float[Tensor, "*hypotheses"] | float:
        """What a hypothesis loses for source positions that got less than their share of attention; never above 0."""
        if not self.coverage_penalty:
            return 0.0
        share = attended.clamp(LEAST_ATTENTION, 1.0).masked_fill(padding, 1.0)
        return self.coverage_penalty * share.log().sum(-1)

    def limits(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The fewest words, and the most symbols, of translations of sources this long."""
        longest = (self.longest_ratio * lengths + self.longest_extra).long().clamp(min=1)
        shortest = torch.minimum((self.shortest_ratio * lengths).ceil().long(), longest - 1)
        return shortest, longest
