"""Forced decoding: score given translations with the same step that a search makes."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from nmt.model.translator import Examples
from nmt.search.beam import Searchable


class ForcedScores(NamedTuple):
    """Scores of given translations; the last step is the end symbol, later steps are 0."""

    word_scores: Float[Tensor, "target batch"]  # log-probability of each given word
    alignment: Float[Tensor, "target batch source"]


@torch.inference_mode()
def force_decode(model: Searchable, batch: Examples) -> ForcedScores:
    """Score the targets of a batch word by word."""
    targets = torch.zeros_like(batch.target_input)
    is_word = torch.zeros_like(targets, dtype=torch.bool)
    targets.view(-1)[batch.target_index], is_word.view(-1)[batch.target_index] = batch.target_words, True
    bound, state = model.begin(model.encode(batch.source, batch.source_lengths))
    scores, alignments = [], []
    for words, next_words, counts in zip(batch.target_input, targets, is_word, strict=True):
        logits, trace, state = model.next(words, state, bound)
        log_probabilities = logits.float().log_softmax(1)
        scores.append(log_probabilities.gather(1, next_words[:, None])[:, 0] * counts)
        alignments.append(trace["alignment"].float() * counts[:, None])
    return ForcedScores(torch.stack(scores), torch.stack(alignments))
