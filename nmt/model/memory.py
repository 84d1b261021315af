"""Memories a decoder may carry beside its state: read before the attention is asked, written after the update."""

from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.encoder import Encoded
from nmt.model.tree import Tree


class NoMemory(nn.Module):
    """r = s_{i-1}: the decoder's state is all it remembers."""

    def bind(self, source: Encoded) -> tuple[Tree, Tree]:
        return (), ()

    def read(
        self, hidden: Float[Tensor, "hypothesis hidden"], state: Tree, bound: Tree
    ) -> tuple[Float[Tensor, "hypothesis hidden"], Tree, dict[str, Tensor]]:
        return hidden, state, {}

    def write(self, hidden: Float[Tensor, "hypothesis hidden"], state: Tree, bound: Tree) -> Tree:
        return state
