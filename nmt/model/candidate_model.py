"""A model that only knows a list of words: what a search needs of it, over their numbers in the list."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.tree import Tree, for_each_hypothesis


class Restricted:
    """`words` (ascending): those it knows; `allowed`: those each sentence of the batch may be translated with."""

    def __init__(
        self,
        model: nn.Module,  # a translator, which makes these
        words: Int[Tensor, " candidates"],
        allowed: Bool[Tensor, "sentence candidates"],
    ):
        self.model, self.words, self.allowed = model, words, allowed
        self.weight, self.bias = model.output.rows(words)

    def encode(self, source: Tensor, lengths: Tensor) -> Tree:
        return self.model.encode(source, lengths)

    def begin(self, source: Tree) -> tuple[Tree, Tree]:
        bound, state = self.model.begin(source)
        return (bound, self.allowed), state

    def next(self, places: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, dict[str, Tensor], Tree]:
        bound, allowed = bound
        vectors, trace, state = self.model.advance(self.words[places], state, bound)
        logits = functional.linear(vectors, self.weight, self.bias)
        return logits.masked_fill(~for_each_hypothesis(allowed, len(places)), -torch.inf), trace, state
