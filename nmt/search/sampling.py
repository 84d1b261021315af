"""Draw words instead of searching for the most probable ones."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.search.settings import Search


def draw_words(
    logits: Float[Tensor, "hypothesis vocabulary"], search: Search, random: torch.Generator
) -> Int[Tensor, " hypothesis"]:
    """Draw one word for each hypothesis; logits of forbidden words are -inf."""
    logits = logits / search.temperature
    if search.top_k and search.top_k < logits.shape[1]:
        lowest = logits.topk(search.top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, -torch.inf)
    if search.top_p < 1:
        probabilities, order = logits.softmax(1).sort(dim=1, descending=True)
        too_late = probabilities.cumsum(1) - probabilities >= search.top_p  # the words before have enough probability
        logits = logits.masked_fill(torch.zeros_like(too_late).scatter(1, order, too_late), -torch.inf)
    return torch.multinomial(logits.softmax(1), 1, generator=random)[:, 0]
