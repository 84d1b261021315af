"""The GRU decoders of Bahdanau 2015 / Tu 2016, Wang 2016, and Sankaran 2016 / Meng 2016.

    r   = memory.read(s_{i-1})            without a memory: s_{i-1}
    q   = query(r, e(y_{i-1}))            the query of the attention
    c_i = attention.read(q)
    s_i = update(r, q, e(y_{i-1}), c_i)
    attention.write(s_i); memory.write(s_i)

The three decoders differ in `query` and `update` only.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.attention import AttentionInterface
from nmt.model.cells import gru
from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.encoder import EncodedSource

Hidden = Float[Tensor, "hypothesis hidden"]
Context = Float[Tensor, "hypothesis context"]
Query = Float[Tensor, "hypothesis query"]


class Inputs(NamedTuple):
    """The previous word and its products, for one step or for all steps."""

    word: Float[Tensor, "*hypotheses word"]  # e(y_{i-1})
    gates: Float[Tensor, "*hypotheses gates"]
    query: Float[Tensor, "*hypotheses query"]  # of size 0, but in Feedback


class GRUDecoder(nn.Module):
    """The step of the three decoders; a decoder defines `query` and `update`."""

    def __init__(
        self,
        *,
        word_size: int,
        hidden_size: int,
        attention: AttentionInterface,
        memory: nn.Module,
        initial: nn.Module,
        readout: nn.Module,
    ):
        super().__init__()
        self.attention, self.memory, self.initial, self.readout = attention, memory, initial, readout
        self.word_gates = nn.Linear(word_size, 3 * hidden_size)
        self.recurrent_gates = nn.Linear(hidden_size, 3 * hidden_size)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        """Return the products of the words, for all steps at once."""
        return Inputs(embedded, self.word_gates(embedded), embedded[..., :0])

    def begin(self, source: EncodedSource) -> tuple[DecoderBound, DecoderState]:
        """Return the values that are fixed for each sentence, and the first state."""
        attention_bound, attention_state = self.attention.bind(source)
        memory_bound, memory_state = self.memory.bind(source)
        state = DecoderState(self.initial(source), attention_state, memory_state)
        return DecoderBound(attention_bound, memory_bound), state

    def step(self, inputs: Inputs, state: DecoderState, bound: DecoderBound) -> tuple[Features, Trace, DecoderState]:
        """Return the features of step i, its trace, and the new state."""
        recalled, memory_state, memory_trace = self.memory.read(state.hidden, state.memory, bound.memory)  # r
        query = self.query(recalled, inputs)  # q
        read = self.attention.read(query, inputs.word, state.attention, bound.attention)  # c_i
        hidden = self.update(recalled, query, inputs, read.context)  # s_i
        new_state = DecoderState(
            hidden,
            self.attention.write(hidden, read.state, bound.attention),
            self.memory.write(hidden, memory_state, bound.memory),
        )
        trace = {"alignment": read.alignment} | read.trace | memory_trace
        return Features(self.select_readout_state(state.hidden, hidden), read.context), trace, new_state

    def query(self, recalled: Hidden, inputs: Inputs) -> Query:
        """Return q; `recalled` is r."""
        raise NotImplementedError

    def update(self, recalled: Hidden, query: Query, inputs: Inputs, context: Context) -> Hidden:
        """Return s_i."""
        raise NotImplementedError

    def select_readout_state(self, previous: Hidden, hidden: Hidden) -> Hidden:
        """Return the state that the readout gets: s_i, not s_{i-1}."""
        return hidden


class Bahdanau(GRUDecoder):
    """q = r;  s_i = GRU(r, [e(y_{i-1}); c_i]).

    The readout gets s_{i-1} (GroundHog), or s_i with `readout_state: current`.
    """

    def __init__(self, *, hidden_size: int, readout_state: str = "previous", **parts):
        super().__init__(hidden_size=hidden_size, **parts)
        if readout_state not in ("previous", "current"):
            raise ConfigurationError(f"decoder.readout_state={readout_state}: choose previous or current")
        self.readout_state = readout_state
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size, bias=False)

    def query(self, recalled: Hidden, inputs: Inputs) -> Query:
        """Return r."""
        return recalled

    def update(self, recalled: Hidden, query: Query, inputs: Inputs, context: Context) -> Hidden:
        """Return GRU(r, [e(y_{i-1}); c_i])."""
        return gru(inputs.gates + self.context_gates(context), self.recurrent_gates(recalled), recalled)

    def select_readout_state(self, previous: Hidden, hidden: Hidden) -> Hidden:
        """Return s_{i-1} or s_i."""
        return previous if self.readout_state == "previous" else hidden


class Feedback(GRUDecoder):
    """q = tanh(W_r r + W_y e(y_{i-1}));  s_i = GRU(r, [e(y_{i-1}); c_i]); Wang 2016 §2.1 and §3.2."""

    def __init__(self, *, word_size: int, hidden_size: int, **parts):
        super().__init__(word_size=word_size, hidden_size=hidden_size, **parts)
        self.state_query = nn.Linear(hidden_size, hidden_size, bias=False)  # W_r
        self.word_query = nn.Linear(word_size, hidden_size)  # W_y
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size, bias=False)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        """Return the products of the words, for all steps at once."""
        return Inputs(embedded, self.word_gates(embedded), self.word_query(embedded))

    def query(self, recalled: Hidden, inputs: Inputs) -> Query:
        """Return tanh(W_r r + W_y e(y_{i-1}))."""
        return torch.tanh(self.state_query(recalled) + inputs.query)

    def update(self, recalled: Hidden, query: Query, inputs: Inputs, context: Context) -> Hidden:
        """Return GRU(r, [e(y_{i-1}); c_i])."""
        return gru(inputs.gates + self.context_gates(context), self.recurrent_gates(recalled), recalled)


class Conditional(GRUDecoder):
    """q = s̃ = GRU₁(r, e(y_{i-1}));  s_i = GRU₂(s̃, c_i); dl4mt, Sankaran 2016 §2, Meng 2016 §2.2."""

    def __init__(self, *, hidden_size: int, **parts):
        super().__init__(hidden_size=hidden_size, **parts)
        self.context_gates = nn.Linear(self.attention.context_size, 3 * hidden_size)
        self.second_recurrent_gates = nn.Linear(hidden_size, 3 * hidden_size)

    def query(self, recalled: Hidden, inputs: Inputs) -> Query:
        """Return s̃ = GRU₁(r, e(y_{i-1}))."""
        return gru(inputs.gates, self.recurrent_gates(recalled), recalled)

    def update(self, recalled: Hidden, query: Query, inputs: Inputs, context: Context) -> Hidden:
        """Return GRU₂(s̃, c_i)."""
        return gru(self.context_gates(context), self.second_recurrent_gates(query), query)
