"""How likely a model finds translations that are given: nats per piece, and perplexity per word."""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from nmt.data.batches import Batch
from nmt.model.translator import Translator


def counts(model: Translator, batch: Batch, ends_word: Bool[Tensor, " vocabulary"]) -> Float64[Tensor, "3"]:
    """Nats, pieces and words, which add up over batches; end symbols count as both."""
    said = batch.target_words
    told = float(model.loss(batch).likelihood), float(len(said)), float(ends_word[said].sum())
    return torch.tensor(told, dtype=torch.float64)


def scores(totals: Float64[Tensor, "3"]) -> dict[str, float]:
    """Infinite where a perplexity is beyond numbers."""
    nats, pieces, words = totals.cpu()
    return {"loss": float(nats / pieces), "perplexity": float((nats / words).exp())}
