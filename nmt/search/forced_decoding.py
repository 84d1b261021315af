"""Forced decoding: what a model makes of translations that are given."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.model.translator import Examples
from nmt.search.beam import Searchable


class Forced(NamedTuple):
    """First dimension: steps, the end symbol's the last; 0 where a sentence has ended."""

    word_scores: Float[Tensor, "target batch"]  # log-probability of each given word
    alignment: Float[Tensor, "target batch source"]


@torch.inference_mode()
def force(model: Searchable, batch: Examples) -> Forced:
    """Word after word, by the same step as a search takes."""
    wanted = torch.zeros_like(batch.target_input)
    real = torch.zeros_like(wanted, dtype=torch.bool)
    wanted.view(-1)[batch.target_index], real.view(-1)[batch.target_index] = batch.target_words, True
    bound, state = model.begin(model.encode(batch.source, batch.source_lengths))
    scores, alignments = [], []
    for words, given, counts in zip(batch.target_input, wanted, real, strict=True):
        logits, trace, state = model.next(words, state, bound)
        logs = logits.float().log_softmax(1)
        scores.append(logs.gather(1, given[:, None])[:, 0] * counts)
        alignments.append(trace["alignment"].float() * counts[:, None])
    return Forced(torch.stack(scores), torch.stack(alignments))
