"""The decoder of Luong 2015 §3: stacked LSTMs, attention on top, and the attentional vector h̃ fed back (§3.3).

    h_i = top of LSTMs([e(y_{i-1}); h̃_{i-1}])     without input feeding: LSTMs(e(y_{i-1}))
    c_i = attention.read(h_i)
    h̃_i = tanh(W_c [c_i; h_i])                     without attention: h_i (eq. 2–3)

A memory is read in place of the top layer's previous state, and written with h_i; the paper has none.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.model.attention.attention import AttentionInterface
from nmt.model.cells import lstm
from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.encoder import EncodedSource

LayerState = tuple[Tensor, Tensor]  # hidden, cell


class Inputs(NamedTuple):
    """The previous word and its products, for one step or for all steps."""

    word: Float[Tensor, "*hypotheses word"]  # e(y_{i-1})
    gates: Float[Tensor, "*hypotheses gates"]  # of the first layer


class LuongHidden(NamedTuple):
    """The states of all layers, bottom layer first, and the attentional vector h̃_i."""

    layers: tuple[LayerState, ...]
    attentional: Float[Tensor, "hypothesis hidden"]


class Luong(nn.Module):
    """The decoder of Luong 2015 §3, with input feeding or without."""

    def __init__(
        self,
        *,
        word_size: int,
        hidden_size: int,
        layers: int,
        input_feeding: bool,
        dropout: float,
        attention: AttentionInterface,
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
        """Return the products of the words, for all steps at once."""
        return Inputs(embedded, self.word_gates(embedded))

    def begin(self, source: EncodedSource) -> tuple[DecoderBound, DecoderState]:
        """Return the values that are fixed for each sentence, and the first state."""
        attention_bound, attention_state = self.attention.bind(source)
        memory_bound, memory_state = self.memory.bind(source)
        layers = self.initial(source)
        hidden = LuongHidden(layers, torch.zeros_like(layers[-1][0]))  # h̃_0 = 0
        return DecoderBound(attention_bound, memory_bound), DecoderState(hidden, attention_state, memory_state)

    def step(self, inputs: Inputs, state: DecoderState, bound: DecoderBound) -> tuple[Features, Trace, DecoderState]:
        """Return the features of step i, its trace, and the new state."""
        *lower, (top_hidden, top_cell) = state.hidden.layers
        recalled, memory_state, memory_trace = self.memory.read(top_hidden, state.memory, bound.memory)
        layers = self._run_layers(inputs, state.hidden.attentional, (*lower, (recalled, top_cell)))
        hidden = layers[-1][0]  # h_i
        read = self.attention.read(hidden, inputs.word, state.attention, bound.attention)  # c_i
        attentional = hidden  # h̃_i
        if self.attention.context_size:
            attentional = torch.tanh(self.attentional(torch.cat([read.context, hidden], dim=1)))
        new_state = DecoderState(
            LuongHidden(layers, attentional),
            self.attention.write(hidden, read.state, bound.attention),
            self.memory.write(hidden, memory_state, bound.memory),
        )
        trace = {"alignment": read.alignment} | read.trace | memory_trace
        return Features(attentional, read.context[:, :0]), trace, new_state  # no c_i, because h̃_i contains it

    def _run_layers(self, inputs: Inputs, fed: Tensor, previous: tuple[LayerState, ...]) -> tuple[LayerState, ...]:
        """Return the new states of all layers; `fed` is h̃_{i-1}."""
        gates = inputs.gates + self.fed_gates(self.dropout(fed)) if self.input_feeding else inputs.gates
        layers: list[LayerState] = []
        for number, (hidden, cell) in enumerate(previous):
            if number > 0:
                gates = self.layer_gates[number - 1](self.dropout(layers[-1][0]))
            layers.append(lstm(gates, self.recurrent_gates[number](hidden), cell))
        return tuple(layers)
