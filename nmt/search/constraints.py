"""Constraints on the next word of a hypothesis: forbidden words get the logit -inf."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.data.vocabulary import END, PAD, START
from nmt.search.settings import Search

FORBIDDEN = (PAD, START)  # symbols no translation may contain


class Constraints:
    """The constraints of a search: shortest length, prefixes and repeated n-grams.

    Args:
        search: The settings, of which `no_repeat_ngram` is read.
        shortest: For each sentence the words that must come before the end symbol.
        prefixes: For each sentence the words that its translation must begin with, padded.
    """

    def __init__(
        self,
        search: Search,
        shortest: Int[Tensor, " sentence"],
        prefixes: Int[Tensor, "sentence prefix"] | None,
    ):
        self.ngram, self.prefixes = search.no_repeat_ngram, prefixes
        self.shortest = shortest
        self.latest_shortest = int(shortest.max())

    def apply(
        self,
        logits: Float[Tensor, "sentence beam vocabulary"],
        history: Int[Tensor, "sentence beam step"] | None,
        sentences: Int[Tensor, " sentence"],
        step: int,
    ) -> None:
        """Mask forbidden words, in place.

        Args:
            logits: The logits of the next words.
            history: The words so far; needed only for `no_repeat_ngram`.
            sentences: The indices of the sentences in the batch.
            step: The number of words so far.
        """
        forced = None
        if self.prefixes is not None and step < self.prefixes.shape[1]:
            forced = self.prefixes[sentences, step][:, None, None].expand(-1, logits.shape[1], 1)
            forced_logits = logits.gather(2, forced)
        end_logits = logits[:, :, END].clone()
        for symbol in FORBIDDEN:
            logits[:, :, symbol] = -torch.inf
        if step < self.latest_shortest:
            logits[:, :, END].masked_fill_((step < self.shortest[sentences])[:, None], -torch.inf)
        if self.ngram and step >= self.ngram:
            _mask_repetitions(logits, history, self.ngram)
            no_word_left = logits.amax(2) == -torch.inf  # such a hypothesis may end, even if it is too short
            logits[:, :, END] = torch.where(no_word_left, end_logits, logits[:, :, END])
        if forced is not None:
            logits.masked_fill_(forced != PAD, -torch.inf)
            logits.scatter_(2, forced, forced_logits.masked_fill(forced == PAD, -torch.inf))


def _mask_repetitions(logits: Tensor, history: Tensor, size: int) -> None:
    """Mask words that would complete an n-gram of the history; the end symbol, which is in no history, stays."""
    ngrams = history.unfold(2, size, 1)  # (sentence, beam, n-gram, size)
    last_words = history[:, :, history.shape[2] - (size - 1) :]
    same_start = (ngrams[..., :-1] == last_words[:, :, None]).all(-1)
    repeats = torch.zeros_like(logits).scatter_reduce_(2, ngrams[..., -1], same_start.to(logits.dtype), "amax")
    logits.masked_fill_(repeats > 0, -torch.inf)
