"""The decoders of Bahdanau 2015 / Tu 2016, Wang 2016, and Sankaran 2016 / Meng 2016, with a GRU or LSTM as their cell.

    r   = memory.read(s_{i-1})            without a memory: s_{i-1}
    q   = query(r, e(y_{i-1}))            the query of the attention
    c_i = attention.read(q)
    s_i = cell(products of e(y_{i-1}), c_i and r or q)
    attention.write(s_i); memory.write(s_i)

The three decoders differ in `query`, and `Conditional` in `products` too. A context gate may scale the products.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.attention import AttentionInterface
from nmt.model.cells import Cell
from nmt.model.decoder.context_gate import ContextGate
from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.encoder import EncodedSource
from nmt.model.tree import Tree

Context = Float[Tensor, "hypothesis context"]
Query = Float[Tensor, "hypothesis query"]


class Inputs(NamedTuple):
    """The previous word and its products, for one step or for all steps."""

    word: Float[Tensor, "*hypotheses word"]  # e(y_{i-1})
    gates: Float[Tensor, "*hypotheses gates"]
    query: Float[Tensor, "*hypotheses query"]  # of size 0, but in Feedback


class Products(NamedTuple):
    """The products of an update of the cell."""

    word: Float[Tensor, "hypothesis gates"] | None  # None if e(y_{i-1}) has entered the state before
    hidden: Float[Tensor, "hypothesis gates"]
    context: Float[Tensor, "hypothesis gates"]


class RecurrentDecoder(nn.Module):
    """The step of the three decoders; a decoder defines `query` and makes `context_gates`."""

    context_gates: nn.Linear
    readout_state = "current"  # the state that the readout gets: s_i; previous: s_{i-1}

    def __init__(
        self,
        *,
        word_size: int,
        hidden_size: int,
        cell: Cell,
        context_gate: ContextGate | None,
        attention: AttentionInterface,
        memory: nn.Module,
        initial: nn.Module,
        readout: nn.Module,
    ):
        super().__init__()
        self.cell, self.context_gate = cell, context_gate
        self.attention, self.memory, self.initial, self.readout = attention, memory, initial, readout
        self.word_gates = nn.Linear(word_size, cell.gates * hidden_size)
        self.recurrent_gates = nn.Linear(hidden_size, cell.gates * hidden_size)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        """Return the products of the words, for all steps at once."""
        return Inputs(embedded, self.word_gates(embedded), embedded[..., :0])

    def begin(self, source: EncodedSource) -> tuple[DecoderBound, DecoderState]:
        """Return the values that are fixed for each sentence, and the first state."""
        attention_bound, attention_state = self.attention.bind(source)
        memory_bound, memory_state = self.memory.bind(source)
        state = DecoderState(self.cell.start(self.initial(source)), attention_state, memory_state)
        return DecoderBound(attention_bound, memory_bound), state

    def step(self, inputs: Inputs, state: DecoderState, bound: DecoderBound) -> tuple[Features, Trace, DecoderState]:
        """Return the features of step i, its trace, and the new state."""
        previous = self.cell.hidden(state.hidden)  # s_{i-1}
        recalled, memory_state, memory_trace = self.memory.read(previous, state.memory, bound.memory)  # r
        query, between = self.query(self.cell.replace(state.hidden, recalled), inputs)  # q
        read = self.attention.read(query, inputs.word, state.attention, bound.attention)  # c_i
        updated, gate_trace = self._update(between, inputs, read.context)
        hidden = self.cell.hidden(updated)  # s_i
        new_state = DecoderState(
            updated,
            self.attention.write(hidden, read.state, bound.attention),
            self.memory.write(hidden, memory_state, bound.memory),
        )
        trace = {"alignment": read.alignment} | read.trace | memory_trace | gate_trace
        shown = previous if self.readout_state == "previous" else hidden
        return Features(shown, read.context), trace, new_state

    def _update(self, state: Tree, inputs: Inputs, context: Context) -> tuple[Tree, Trace]:
        """Return the cell's new state, and the trace of the context gate."""
        word, hidden, source = self.products(state, inputs, context)
        trace: Trace = {}
        if self.context_gate is not None:
            target_scale, source_scale, trace = self.context_gate(inputs.word, self.cell.hidden(state), context)
            target_scale, source_scale = (scale.repeat(1, self.cell.gates) for scale in (target_scale, source_scale))
            hidden, source = hidden * target_scale, source * source_scale
            word = None if word is None else word * target_scale
        return self.cell(source if word is None else word + source, hidden, state), trace

    def query(self, state: Tree, inputs: Inputs) -> tuple[Query, Tree]:
        """Return q, and the state that the cell updates; the hidden part of `state` is r."""
        raise NotImplementedError

    def products(self, state: Tree, inputs: Inputs, context: Context) -> Products:
        """Return the products of e(y_{i-1}), r and c_i."""
        return Products(inputs.gates, self.recurrent_gates(self.cell.hidden(state)), self.context_gates(context))


class Bahdanau(RecurrentDecoder):
    """q = r;  s_i = cell(r, [e(y_{i-1}); c_i]); Bahdanau 2015 §A.1.

    The readout gets s_{i-1} (GroundHog), or s_i with `readout_state: current`.
    """

    def __init__(self, *, hidden_size: int, cell: Cell, readout_state: str = "previous", **parts):
        super().__init__(hidden_size=hidden_size, cell=cell, **parts)
        if readout_state not in ("previous", "current"):
            raise ConfigurationError(f"decoder.readout_state={readout_state}: choose previous or current")
        self.readout_state = readout_state
        self.context_gates = nn.Linear(self.attention.context_size, cell.gates * hidden_size, bias=False)

    def query(self, state: Tree, inputs: Inputs) -> tuple[Query, Tree]:
        """Return r."""
        return self.cell.hidden(state), state


class Feedback(RecurrentDecoder):
    """q = tanh(W_r r + W_y e(y_{i-1}));  s_i = cell(r, [e(y_{i-1}); c_i]); Wang 2016 §2.1 and §3 (eq. 5, 7)."""

    def __init__(self, *, word_size: int, hidden_size: int, cell: Cell, **parts):
        super().__init__(word_size=word_size, hidden_size=hidden_size, cell=cell, **parts)
        self.state_query = nn.Linear(hidden_size, hidden_size, bias=False)  # W_r
        self.word_query = nn.Linear(word_size, hidden_size)  # W_y
        self.context_gates = nn.Linear(self.attention.context_size, cell.gates * hidden_size, bias=False)

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        """Return the products of the words, for all steps at once."""
        return Inputs(embedded, self.word_gates(embedded), self.word_query(embedded))

    def query(self, state: Tree, inputs: Inputs) -> tuple[Query, Tree]:
        """Return tanh(W_r r + W_y e(y_{i-1}))."""
        return torch.tanh(self.state_query(self.cell.hidden(state)) + inputs.query), state


class Conditional(RecurrentDecoder):
    """q = s̃ = cell₁(r, e(y_{i-1}));  s_i = cell₂(s̃, c_i); dl4mt, Sankaran 2016 §2, Meng 2016 §2.2."""

    def __init__(self, *, hidden_size: int, cell: Cell, **parts):
        super().__init__(hidden_size=hidden_size, cell=cell, **parts)
        self.context_gates = nn.Linear(self.attention.context_size, cell.gates * hidden_size)
        self.second_recurrent_gates = nn.Linear(hidden_size, cell.gates * hidden_size)

    def query(self, state: Tree, inputs: Inputs) -> tuple[Query, Tree]:
        """Return s̃ = cell₁(r, e(y_{i-1}))."""
        between = self.cell(inputs.gates, self.recurrent_gates(self.cell.hidden(state)), state)
        return self.cell.hidden(between), between

    def products(self, state: Tree, inputs: Inputs, context: Context) -> Products:
        """Return the products of s̃ and c_i."""
        return Products(None, self.second_recurrent_gates(self.cell.hidden(state)), self.context_gates(context))
