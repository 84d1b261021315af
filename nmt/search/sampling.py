"""Drawing words instead of searching for the best."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.search.settings import Search


def draw(
    logs: Float[Tensor, "hypothesis vocabulary"], how: Search, random: torch.Generator
) -> Int[Tensor, " hypothesis"]:
    """One word for each hypothesis, from unnormalised log-probabilities (-inf: not permitted)."""
    logs = logs / how.temperature
    if how.top_k and how.top_k < logs.shape[1]:
        least = logs.topk(how.top_k, dim=1).values[:, -1:]
        logs = logs.masked_fill(logs < least, -torch.inf)
    if how.top_p < 1:
        ordered, order = logs.softmax(1).sort(dim=1, descending=True)
        enough_before = ordered.cumsum(1) - ordered >= how.top_p
        logs = logs.masked_fill(torch.zeros_like(enough_before).scatter(1, order, enough_before), -torch.inf)
    return torch.multinomial(logs.softmax(1), 1, generator=random)[:, 0]
