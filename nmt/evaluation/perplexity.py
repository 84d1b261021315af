"""How likely a model finds translations that are given: nats per piece, and perplexity per word."""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from nmt.data.batches import Batch
from nmt.model.translator import Translator


def words_of(lines: list[str]) -> Int[Tensor, " sentence"]:
    """Of each, as they are written and with the end symbol: an unknown piece does not tell whether it ends a word."""
    return torch.tensor([len(line.split()) + 1 for line in lines])


def counts(model: Translator, batch: Batch, words: Int[Tensor, " sentence"]) -> Float64[Tensor, "3"]:
    """Nats, pieces and words, which add up over batches; end symbols count as both. `words`: of every sentence of the
    corpus."""
    pieces = len(batch.target_words)
    own = words[batch.sentences.cpu()].sum() if pieces else 0  # a rank without a sentence runs another's
    return torch.tensor((float(model.loss(batch).likelihood), pieces, own), dtype=torch.float64)


def scores(totals: Float64[Tensor, "3"]) -> dict[str, float]:
    """Infinite where a perplexity is beyond numbers."""
    nats, pieces, words = totals.cpu()
    return {"loss": float(nats / pieces), "perplexity": float((nats / words).exp())}
