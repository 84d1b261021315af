"""A translator whose vocabulary is limited to a list of candidate words, for the search."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.tree import Tree, repeat_per_hypothesis


class CandidateModel:
    """The interface that a search needs; its words are indices into the candidate list.

    Args:
        model: the `Translator`, not named as a type because it imports this file.
        words: the candidate words, ascending.
        allowed: the candidates that each sentence of the batch may use.
    """

    def __init__(
        self,
        model: nn.Module,
        words: Int[Tensor, " candidates"],
        allowed: Bool[Tensor, "sentence candidates"],
    ):
        self.model, self.words, self.allowed = model, words, allowed
        self.weight, self.bias = model.output.rows(words)

    def encode(self, source: Tensor, lengths: Tensor) -> Tree:
        """Return the encoded source."""
        return self.model.encode(source, lengths)

    def begin(self, source: Tree) -> tuple[Tree, Tree]:
        """Return the values that are fixed for each sentence, and the first state."""
        bound, state = self.model.begin(source)
        return (bound, self.allowed), state

    def next(self, indices: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, dict[str, Tensor], Tree]:
        """Return logits over the candidates, the trace and the new state."""
        bound, allowed = bound
        vectors, trace, state = self.model.step(self.words[indices], state, bound)
        logits = functional.linear(vectors, self.weight, self.bias)
        return logits.masked_fill(~repeat_per_hypothesis(allowed, len(indices)), -torch.inf), trace, state
