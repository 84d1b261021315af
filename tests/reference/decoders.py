"""Teacher-forced decoders, initial states and readouts (models.md §1), one sentence at a time.

`words` are e(y_0) … e(y_{I−1}). An attention has read(i, query, word) → (context, alignment) and write(i, state);
a memory has read(i, state) → r and write(i, state).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .cells import Weights, affine, gru, lstm


class Reader(Protocol):
    """What a decoder asks of an attention."""

    def read(self, i: int, query: Tensor, word: Tensor | None) -> tuple[Tensor, Tensor]: ...

    def write(self, i: int, state: Tensor) -> None: ...


class Memory(Protocol):
    """What a decoder asks of a memory."""

    def read(self, i: int, state: Tensor) -> Tensor: ...

    def write(self, i: int, state: Tensor) -> None: ...


class Step(NamedTuple):
    """One target step: `state` is s_i (Luong: h_i, the top layer), `previous_state` the s_{i−1} that maxout reads."""

    state: Tensor
    context: Tensor
    alignment: Tensor
    query: Tensor
    previous_state: Tensor
    attentional: Tensor | None = None  # Luong's h̃_i


def bahdanau(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: Reader,
    *,
    gru_weights: Weights,
    memory: Memory | None = None,
) -> list[Step]:
    """RNNsearch: q = r; s_i = GRU(r, [e(y_{i−1}); c_i])."""
    s, steps = initial_state, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)
        q = r
        c, alignment = attention.read(i, q, word)  # Tu 2016 eq. 5
        s = gru(torch.cat([word, c]), r, **gru_weights)  # Tu 2016 eq. 2
        attention.write(i, s)
        if memory is not None:
            memory.write(i, s)
        steps.append(Step(s, c, alignment, q, previous))
    return steps


def feedback(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: Reader,
    *,
    W_r: Tensor,
    W_y: Tensor,
    gru_weights: Weights,
    b: Tensor | None = None,
    memory: Memory | None = None,
) -> list[Step]:
    """Wang 2016: q = tanh(W_r r + W_y e(y_{i−1})); s_i = GRU(r, [e(y_{i−1}); c_i]). With a memory: MEMDEC."""
    s, steps = initial_state, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)  # eq. 4
        q = torch.tanh(affine(W_r, r, b) + W_y @ word)  # eq. 5
        c, alignment = attention.read(i, q, word)  # eq. 6
        s = gru(torch.cat([word, c]), r, **gru_weights)  # eq. 7
        attention.write(i, s)
        if memory is not None:
            memory.write(i, s)  # eq. 8
        steps.append(Step(s, c, alignment, q, previous))
    return steps


def conditional(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: Reader,
    *,
    gru_1: Weights,
    gru_2: Weights,
    memory: Memory | None = None,
) -> list[Step]:
    """dl4mt: q = s̃ = GRU₁(r, e(y_{i−1})); s_i = GRU₂(s̃, c_i). With a writing attention: NMT_IA."""
    s, steps = initial_state, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)
        intermediate = gru(word, r, **gru_1)  # Meng 2016 eq. 7, Sankaran 2016 eq. 2
        c, alignment = attention.read(i, intermediate, word)  # Meng 2016 eq. 8
        s = gru(c, intermediate, **gru_2)  # Meng 2016 eq. 9, Sankaran 2016 eq. 3
        attention.write(i, s)  # Meng 2016 eq. 10
        if memory is not None:
            memory.write(i, s)
        steps.append(Step(s, c, alignment, intermediate, previous))
    return steps


def luong(
    words: Sequence[Tensor],
    initial_states: Sequence[tuple[Tensor, Tensor]],
    attention: Reader,
    *,
    layers: Sequence[Weights],
    W_c: Tensor | None,
    input_feeding: bool = True,
    memory: Memory | None = None,
) -> list[Step]:
    """Luong 2015: h_i = top of a stacked LSTM([e(y_{i−1}); h̃_{i−1}]), h̃_i = tanh(W_c [c_i; h_i]), h̃_0 = 0.

    Without W_c, in a model without attention, h̃_i = h_i (eq. 2).

    A memory (ours, no paper's) is read in the place of the top layer's state, and written with the new one.
    """
    states = list(initial_states)
    attentional = torch.zeros_like(states[-1][0])  # h̃_0 = 0
    steps = []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], states[-1][0]
        if memory is not None:
            states[-1] = (memory.read(i, previous), states[-1][1])
        below = torch.cat([word, attentional]) if input_feeding else word  # §3.3
        for number, layer in enumerate(layers):
            h, cell = states[number]
            h, cell = lstm(below, h, cell, **layer)
            states[number] = (h, cell)
            below = h
        c, alignment = attention.read(i, below, word)  # q = h_i
        attentional = below if W_c is None else luong_readout(below, c, W_c=W_c)  # eq. 5
        attention.write(i, below)
        if memory is not None:
            memory.write(i, below)
        steps.append(Step(below, c, alignment, below, previous, attentional))
    return steps


# ---------------------------------------------------------------- initial states


def initial_state_backward(annotations: Sequence[Tensor], *, W: Tensor, b: Tensor | None = None) -> Tensor:
    """GroundHog: s_0 = tanh(W · backward annotation of the first word + b), the second half of h_1."""
    first = annotations[0]
    return torch.tanh(affine(W, first[len(first) // 2 :], b))


def initial_state_mean(annotations: Sequence[Tensor], *, W: Tensor, b: Tensor | None = None) -> Tensor:
    """dl4mt: s_0 = tanh(W · mean of the annotations + b)."""
    total = torch.zeros_like(annotations[0])
    for annotation in annotations:
        total = total + annotation
    return torch.tanh(affine(W, total / len(annotations), b))


def initial_states_copy(encoder_states: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """Luong: the last (h, c) of each encoder layer."""
    return [(h, c) for h, c in encoder_states]


# ---------------------------------------------------------------- readouts


def deep_output(
    state: Tensor, word: Tensor, context: Tensor, *, W_l: Tensor, W_p: Tensor, W_c: Tensor, b: Tensor | None = None
) -> Tensor:
    """dl4mt: tanh(W_l s_i + W_p e(y_{i−1}) + W_c c_i); b is the sum of its biases."""
    return torch.tanh(affine(W_l, state, b) + W_p @ word + W_c @ context)


def maxout(
    previous_state: Tensor,
    word: Tensor,
    context: Tensor,
    *,
    U_o: Tensor,
    V_o: Tensor,
    C_o: Tensor,
    W_o: Tensor,
    b: Tensor | None = None,
    b_o: Tensor | None = None,
) -> Tensor:
    """GroundHog: maximum of each two neighbours of U_o s_{i−1} + V_o e(y_{i−1}) + C_o c_i, then W_o: 1000 → 500 → 620.

    b is the sum of the biases before the maximum, b_o the bias after it.
    """
    wide = affine(U_o, previous_state, b) + V_o @ word + C_o @ context
    narrow = []
    for pair in range(len(wide) // 2):
        narrow.append(torch.maximum(wide[2 * pair], wide[2 * pair + 1]))  # t_l = max(t̃_{2l−1}, t̃_{2l})
    return affine(W_o, torch.stack(narrow), b_o)


def luong_readout(state: Tensor, context: Tensor, *, W_c: Tensor) -> Tensor:
    """Luong 2015 eq. 5: h̃_i = tanh(W_c [c_i; h_i])."""
    return torch.tanh(W_c @ torch.cat([context, state]))
