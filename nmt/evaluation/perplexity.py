"""Loss per piece and perplexity per word of reference translations."""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from nmt.data.batches import Batch
from nmt.model.translator import Translator


def count_words(lines: list[str]) -> Int[Tensor, " sentence"]:
    """Count the words of each line and its end symbol."""
    # count words of the text, because an unknown piece does not show whether it ends a word
    return torch.tensor([len(line.split()) + 1 for line in lines])


def compute_totals(model: Translator, batch: Batch, words: Int[Tensor, " sentence"]) -> Float64[Tensor, "3"]:
    """Return nats, pieces and words of a batch, end symbols included; their sums over batches make the scores.

    Args:
        model: The model.
        batch: The batch.
        words: The number of words of each sentence of the corpus, from `count_words`.
    """
    pieces = len(batch.target_words)
    # a rank without a sentence runs the batch of another rank, without target words
    batch_words = words[batch.sentences.cpu()].sum() if pieces else 0
    return torch.tensor((float(model.loss(batch).negative_log_likelihood), pieces, batch_words), dtype=torch.float64)


def compute_scores(totals: Float64[Tensor, "3"]) -> dict[str, float]:
    """Return loss and perplexity from summed totals; a perplexity too large for a float is infinite."""
    nats, pieces, words = totals.cpu()
    return {"loss": float(nats / pieces), "perplexity": float((nats / words).exp())}
