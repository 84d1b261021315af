"""The GRU decoders of Bahdanau 2015 / Tu 2016, Wang 2016, and Sankaran 2016 / Meng 2016: one step, two choices.

    r   = memory.read(s_{i-1})            without a memory: s_{i-1}
    q   = query(r, e(y_{i-1}))            what the attention is asked with
    c_i = attention.read(q)
    s_i = update(r, q, e(y_{i-1}), c_i)
    attention.write(s_i); memory.write(s_i)

The word's part of every product is computed for all words before the loop (`prepare`).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.attention import Attends
from nmt.model.cells import gru
from nmt.model.decoder.types import Bound, Features, State, Trace
from nmt.model.encoder import Encoded

Hidden = Float[Tensor, "hypothesis hidden"]
Context = Float[Tensor, "hypothesis context"]


class Inputs(NamedTuple):
    """What a step gets of the previous word; the query part only where the query reads the word on its own."""

    word: Float[Tensor, "*hypotheses word"]
    gates: Float[Tensor, "*hypotheses gates"]
    query: Float[Tensor, "*hypotheses query"]


class GRUDecoder(nn.Module):
    """The step all three share; `query` and `update` are theirs."""

    def __init__(
        self,
        *,
        word_size: int,
        hidden_size: int,
        attention: Attends,
        memory: nn.Module,
        initial: nn.Module,
        readout: nn.Module,
    ):
        super().__init__()
        self.attention, self.memory, self.initial, self.readout = attention, memory, initial, readout
        self.word_gates = nn.Linear(word_size, 3 * hidden_size)
        self.recurrent_gates = nn.Linear(hidden_size, 3 * hidden_size)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        return Inputs(embedded, self.word_gates(embedded), embedded[..., :0])

    def begin(self, source: Encoded) -> tuple[Bound, State]:
        attention_bound, attention_state = self.attention.bind(source)
        memory_bound, memory_state = self.memory.bind(source)
        return Bound(attention_bound, memory_bound), State(self.initial(source), attention_state, memory_state)

    def step(self, inputs: Inputs, state: State, bound: Bound) -> tuple[Features, Trace, State]:
        carried, memory, memory_trace = self.memory.read(state.hidden, state.memory, bound.memory)
        query = self.query(carried, inputs)
        read = self.attention.read(query, inputs.word, state.attention, bound.attention)
        hidden = self.update(carried, query, inputs, read.context)
        after = State(
            hidden,
            self.attention.write(hidden, read.state, bound.attention),
            self.memory.write(hidden, memory, bound.memory),
        )
        trace = {"alignment": read.alignment} | read.trace | memory_trace
        return Features(self.shown(state.hidden, hidden), read.context), trace, after

    def query(self, carried: Hidden, inputs: Inputs) -> Float[Tensor, "hypothesis query"]:
        raise NotImplementedError

    def update(self, carried: Hidden, query: Tensor, inputs: Inputs, context: Context) -> Hidden:
        raise NotImplementedError

    def shown(self, previous: Hidden, hidden: Hidden) -> Hidden:
        """The state the readout sees."""
        return hidden


class Bahdanau(GRUDecoder):
    """q = r;  s_i = GRU(r, [e(y_{i-1}); c_i]).

    The readout sees s_{i-1} (GroundHog), or s_i with `readout_state: current`.
    """

    def __init__(self, *, hidden_size: int, readout_state: str = "previous", **parts):
        super().__init__(hidden_size=hidden_size, **parts)
        if readout_state not in ("previous", "current"):
            raise ConfigurationError(f"decoder.readout_state={readout_state}: choose previous or current")
        self.readout_state = readout_state
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size, bias=False)

    def query(self, carried: Hidden, inputs: Inputs) -> Float[Tensor, "hypothesis query"]:
        return carried

    def update(self, carried: Hidden, query: Tensor, inputs: Inputs, context: Context) -> Hidden:
        return gru(inputs.gates + self.context_gates(context), self.recurrent_gates(carried), carried)

    def shown(self, previous: Hidden, hidden: Hidden) -> Hidden:
        return previous if self.readout_state == "previous" else hidden


class Feedback(GRUDecoder):
    """q = tanh(W_r r + W_y e(y_{i-1}));  s_i = GRU(r, [e(y_{i-1}); c_i]); Wang 2016 §2.1 and §3.2."""

    def __init__(self, *, word_size: int, hidden_size: int, **parts):
        super().__init__(word_size=word_size, hidden_size=hidden_size, **parts)
        self.state_query = nn.Linear(hidden_size, hidden_size, bias=False)  # W_r
        self.word_query = nn.Linear(word_size, hidden_size)  # W_y
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size, bias=False)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        return Inputs(embedded, self.word_gates(embedded), self.word_query(embedded))

    def query(self, carried: Hidden, inputs: Inputs) -> Float[Tensor, "hypothesis query"]:
        return torch.tanh(self.state_query(carried) + inputs.query)

    update = Bahdanau.update  # the same equation; it and context_gates are all the two share


class Conditional(GRUDecoder):
    """q = s̃ = GRU₁(r, e(y_{i-1}));  s_i = GRU₂(s̃, c_i); dl4mt, Sankaran 2016 §2, Meng 2016 §2.2."""

    def __init__(self, *, hidden_size: int, **parts):
        super().__init__(hidden_size=hidden_size, **parts)
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size)
        self.second_recurrent_gates = nn.Linear(hidden_size, 3 * hidden_size)

    def query(self, carried: Hidden, inputs: Inputs) -> Float[Tensor, "hypothesis query"]:
        return gru(inputs.gates, self.recurrent_gates(carried), carried)

    def update(self, carried: Hidden, query: Tensor, inputs: Inputs, context: Context) -> Hidden:
        return gru(self.context_gates(context), self.second_recurrent_gates(query), query)
