"""The values that decoders take and return."""

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from nmt.model.tree import Tree


class DecoderBound(NamedTuple):
    """Values that are fixed for each sentence."""

    attention: Tree
    memory: Tree


class DecoderState(NamedTuple):
    """Values that change at every step."""

    hidden: Any  # the state of the cell: s_i, or an LSTMState; of the `luong` decoder a LuongHidden
    attention: Tree
    memory: Tree


class Features(NamedTuple):
    """The inputs of the readout, beside the previous word."""

    state: Float[Tensor, "*hypotheses state"]
    context: Float[Tensor, "*hypotheses context"]


# "alignment", and further values of the mechanisms: (N,) a source position from 1; (N, S) or (N, S, d) values of source
# positions; (N, 1), (N, 1, n) or (N, 1, n, d) values beside the source, such as those of n memory cells
Trace = dict[str, Tensor]
