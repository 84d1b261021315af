"""What decoders pass around."""

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from nmt.model.tree import Tree


class Bound(NamedTuple):
    """What is fixed for a sentence; first dimension: sentences."""

    attention: Tree
    memory: Tree


class State(NamedTuple):
    """What changes with every word; first dimension: hypotheses."""

    hidden: Any
    attention: Tree
    memory: Tree


class Features(NamedTuple):
    """What the readout makes a prediction from, beside the previous word."""

    state: Float[Tensor, "*hypotheses state"]
    context: Float[Tensor, "*hypotheses context"]


# Always an `alignment`; more where a mechanism has more to show. After the hypotheses come the source positions, or 1.
Trace = dict[str, Tensor]
