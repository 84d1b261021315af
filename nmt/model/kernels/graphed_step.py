"""A step of a search as a graph of a GPU: recorded once for each shape, then replayed, as in graphed_loop.py."""

from typing import Any

import torch
from torch import Tensor

from nmt.model.kernels.graphed_loop import MOST_GRAPHS, Recorder, Tensors
from nmt.model.tree import Tree, leaves_of, with_leaves

SENTENCES = 16  # a graph has the rows of a multiple of it


class GraphedModel:
    """A model whose `next` replays graphs; the rest is that of the model itself.

    Sentences leave a search at different steps. So that there are few shapes, a graph has the rows of 16, 32, 48, …
    sentences. Rows that a step does not need hold older values. A shape is recorded when it comes for the second time.

    The logits and the state of a step lie in the graph's memory, so they are lost at the next step.

    Args:
        model: the translator or ensemble.
        record: records a function.
    """

    def __init__(self, model: Any, record: Recorder):
        self.model, self.record = model, record
        self.encode, self.begin, self.step = model.encode, model.begin, model.step
        self.restrict_vocabulary = model.restrict_vocabulary
        self.graphs: dict[tuple, _Graph | None] = {}  # by shape; None: seen once

    def next(self, words: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, dict[str, Tensor], Tree]:
        """Return the logits after `words`, the alignment, and the new state."""
        values = (words, state, bound)
        leaves, sentences = leaves_of(values), len(leaves_of(bound)[0])
        filled = sentences + -sentences % SENTENCES
        rows = [len(leaf) * filled // sentences for leaf in leaves]
        key = tuple((count, leaf.shape[1:], leaf.dtype) for count, leaf in zip(rows, leaves, strict=True))
        if key not in self.graphs:
            if len(self.graphs) < MOST_GRAPHS:
                self.graphs[key] = None
            return self.model.next(*values)
        if self.graphs[key] is None:
            self.graphs[key] = _Graph(self, values, rows)
        return self.graphs[key](leaves)


class _Graph:
    """The step for one shape."""

    def __init__(self, graphed: GraphedModel, values: Tree, rows: list[int]):
        self.model = graphed.model
        leaves = zip(leaves_of(values), rows, strict=True)
        self.inputs = [torch.cat([leaf, leaf[:1].expand(count - len(leaf), *leaf.shape[1:])]) for leaf, count in leaves]
        self.values = with_leaves(values, self.inputs)
        self.replay, self.outputs = graphed.record(self._run)

    def _run(self) -> Tensors:
        logits, trace, self.state = self.model.next(*self.values)
        return [logits, trace["alignment"], *leaves_of(self.state)]

    def __call__(self, leaves: Tensors) -> tuple[Tensor, dict[str, Tensor], Tree]:
        """Return the logits, the alignment and the state for other values of the same shapes."""
        for fixed, leaf in zip(self.inputs, leaves, strict=True):
            fixed[: len(leaf)].copy_(leaf)
        self.replay()
        logits, alignment, *state = (output[: len(leaves[0])] for output in self.outputs)
        # a copy, because a search keeps the alignments of all steps
        return logits, {"alignment": alignment.clone()}, with_leaves(self.state, state)
