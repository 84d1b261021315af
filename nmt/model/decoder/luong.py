"""Luong 2015 §3: a stack of LSTMs, attention on top of it, and the attentional vector h̃ fed back (§3.3).

    h_i = top of LSTMs([e(y_{i-1}); h̃_{i-1}])     without input feeding: of e(y_{i-1}) alone
    c_i = attention.read(h_i)
    h̃_i = tanh(W_c [c_i; h_i])                     what the softmax sees; h_i itself without an attention (eq. 2–3)

A memory (no part of the paper) is read and written with the top layer's state, as in the GRU decoders.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.attention.attention import Attends
from nmt.model.cells import lstm
from nmt.model.decoder.types import Bound, Features, State, Trace
from nmt.model.encoder import Encoded


class Inputs(NamedTuple):
    word: Float[Tensor, "*hypotheses word"]
    gates: Float[Tensor, "*hypotheses gates"]  # the first layer's, from the word


class Stack(NamedTuple):
    """The LSTMs' states, bottom first, and the attentional vector of the previous step."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    attentional: Float[Tensor, "hypothesis hidden"]


class Luong(nn.Module):
    def __init__(
        self,
        *,
        word_size: int,
        hidden_size: int,
        layers: int,
        input_feeding: bool,
        dropout: float,
        attention: Attends,
        memory: nn.Module,
        initial: nn.Module,
        readout: nn.Module,
    ):
        super().__init__()
        self.attention, self.memory, self.initial, self.readout = attention, memory, initial, readout
        self.input_feeding = input_feeding
        self.dropout = nn.Dropout(dropout)
        self.word_gates = nn.Linear(word_size, 4 * hidden_size)
        if input_feeding:
            self.fed_gates = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.layer_gates = nn.ModuleList(nn.Linear(hidden_size, 4 * hidden_size) for _ in range(layers - 1))
        self.recurrent_gates = nn.ModuleList(nn.Linear(hidden_size, 4 * hidden_size, bias=False) for _ in range(layers))
        if attention.context_size:
            self.attentional = nn.Linear(attention.context_size + hidden_size, hidden_size, bias=False)  # W_c

    def prepare(self, embedded: Float[Tensor, "*hypotheses word"]) -> Inputs:
        return Inputs(embedded, self.word_gates(embedded))

    def begin(self, source: Encoded) -> tuple[Bound, State]:
        attention_bound, attention_state = self.attention.bind(source)
        memory_bound, memory_state = self.memory.bind(source)
        layers = self.initial(source)
        stack = Stack(layers, torch.zeros_like(layers[-1][0]))  # h̃_0 = 0
        return Bound(attention_bound, memory_bound), State(stack, attention_state, memory_state)

    def step(self, inputs: Inputs, state: State, bound: Bound) -> tuple[Features, Trace, State]:
        *lower, (top_hidden, top_cell) = state.hidden.layers
        carried, memory, memory_trace = self.memory.read(top_hidden, state.memory, bound.memory)
        layers = self._run_layers(inputs, state.hidden.attentional, (*lower, (carried, top_cell)))
        hidden = layers[-1][0]
        read = self.attention.read(hidden, inputs.word, state.attention, bound.attention)
        attentional = self._attentional_vector(read.context, hidden)
        after = State(
            Stack(layers, attentional),
            self.attention.write(hidden, read.state, bound.attention),
            self.memory.write(hidden, memory, bound.memory),
        )
        trace = {"alignment": read.alignment} | read.trace | memory_trace
        return Features(attentional, read.context[:, :0]), trace, after  # c_i is in h̃_i: nothing else reads it

    def _attentional_vector(self, context: Tensor, hidden: Tensor) -> Tensor:
        if not self.attention.context_size:
            return hidden
        return torch.tanh(self.attentional(torch.cat([context, hidden], dim=1)))

    def _run_layers(self, inputs: Inputs, fed: Tensor, before: tuple) -> tuple[tuple[Tensor, Tensor], ...]:
        gates = inputs.gates + self.fed_gates(self.dropout(fed)) if self.input_feeding else inputs.gates
        after = []
        for layer, (hidden, cell) in enumerate(before):
            if layer > 0:
                gates = self.layer_gates[layer - 1](self.dropout(after[-1][0]))
            after.append(lstm(gates + self.recurrent_gates[layer](hidden), cell))
        return tuple(after)
