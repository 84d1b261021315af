"""Teacher-forced decoders, initial states and readouts, one sentence at a time.

`words` are the embeddings e(y_0) … e(y_{I−1}).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .cells import Weights, affine, gru, lstm


class AttentionInterface(Protocol):
    """The functions of an attention that a decoder calls; read returns (c_i, α_i)."""

    def read(self, i: int, query: Tensor, word: Tensor | None) -> tuple[Tensor, Tensor]: ...

    def write(self, i: int, state: Tensor) -> None: ...


class MemoryInterface(Protocol):
    """The functions of a memory that a decoder calls; read returns r."""

    def read(self, i: int, state: Tensor) -> Tensor: ...

    def write(self, i: int, state: Tensor) -> None: ...


class Step(NamedTuple):
    """The values of step i; `state` is s_i (Luong: h_i, the top layer), and `previous_state` is s_{i−1}."""

    state: Tensor
    context: Tensor
    alignment: Tensor
    query: Tensor
    previous_state: Tensor
    attentional: Tensor | None = None  # Luong's h̃_i


class ContextGate(NamedTuple):
    """A context gate (Tu 2017 eq. 4–7): z = σ(W_z e + U_z s + C_z c + b), which scales `source`, `target` or `both`."""

    W_z: Tensor
    U_z: Tensor
    C_z: Tensor
    b: Tensor
    scales: str

    def __call__(self, word: Tensor, state: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scales of the products of the target and of the source."""
        z = torch.sigmoid(affine(self.W_z, word, self.b) + self.U_z @ state + self.C_z @ context)
        if self.scales == "source":
            return torch.ones_like(z), z
        if self.scales == "target":
            return z, torch.ones_like(z)
        return 1 - z, z


def no_gate(word: Tensor, state: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    """Return ones."""
    return torch.ones_like(state), torch.ones_like(state)


def scale_rows(weights: Weights, inputs: Sequence[tuple[Tensor, int]], hidden: Tensor, bias: Tensor) -> Weights:
    """Return the weights of a cell with scaled products; a scale is the same in each gate.

    `inputs` holds a scale and a number of columns for each part of the input, `hidden` and `bias` the other scales.
    """
    gates = len(weights["W_hh"]) // len(hidden)
    columns, parts = 0, []
    for scale, size in inputs:
        parts.append(scale.repeat(gates)[:, None] * weights["W_ih"][:, columns : columns + size])
        columns += size
    scaled = {"W_ih": torch.cat(parts, dim=1), "W_hh": hidden.repeat(gates)[:, None] * weights["W_hh"]}
    scaled["b_ih"] = None if weights.get("b_ih") is None else bias.repeat(gates) * weights["b_ih"]
    scaled["b_hh"] = None if weights.get("b_hh") is None else hidden.repeat(gates) * weights["b_hh"]
    return scaled


def advance(inputs: Tensor, hidden: Tensor, cell: Tensor | None, weights: Weights) -> tuple[Tensor, Tensor | None]:
    """Return the next (h, c) of an LSTM, or (s, None) of a GRU, which has three gates."""
    if len(weights["W_hh"]) == 3 * len(hidden):
        return gru(inputs, hidden, **weights), None
    return lstm(inputs, hidden, torch.zeros_like(hidden) if cell is None else cell, **weights)  # c_0 = 0


def bahdanau(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: AttentionInterface,
    *,
    weights: Weights,
    gate: Callable[..., tuple[Tensor, Tensor]] = no_gate,
    memory: MemoryInterface | None = None,
) -> list[Step]:
    """Run RNNsearch: q = r; s_i = GRU(r, [e(y_{i−1}); c_i])."""
    s, cell, steps = initial_state, None, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)
        q = r
        c, alignment = attention.read(i, q, word)  # Tu 2016 eq. 5
        target, source = gate(word, r, c)
        scaled = scale_rows(weights, [(target, len(word)), (source, len(c))], target, target)
        s, cell = advance(torch.cat([word, c]), r, cell, scaled)  # Tu 2016 eq. 2
        attention.write(i, s)
        if memory is not None:
            memory.write(i, s)
        steps.append(Step(s, c, alignment, q, previous))
    return steps


def feedback(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: AttentionInterface,
    *,
    W_r: Tensor,
    W_y: Tensor,
    weights: Weights,
    b: Tensor | None = None,
    gate: Callable[..., tuple[Tensor, Tensor]] = no_gate,
    memory: MemoryInterface | None = None,
) -> list[Step]:
    """Run RNNsearch* of Wang 2016, or MEMDEC with a memory: q = tanh(W_r r + W_y e(y_{i−1})); s_i as in RNNsearch."""
    s, cell, steps = initial_state, None, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)  # eq. 4
        q = torch.tanh(affine(W_r, r, b) + W_y @ word)  # eq. 5
        c, alignment = attention.read(i, q, word)  # eq. 6
        target, source = gate(word, r, c)
        scaled = scale_rows(weights, [(target, len(word)), (source, len(c))], target, target)
        s, cell = advance(torch.cat([word, c]), r, cell, scaled)  # eq. 7
        attention.write(i, s)
        if memory is not None:
            memory.write(i, s)  # eq. 8
        steps.append(Step(s, c, alignment, q, previous))
    return steps


def conditional(
    words: Sequence[Tensor],
    initial_state: Tensor,
    attention: AttentionInterface,
    *,
    first: Weights,
    second: Weights,
    gate: Callable[..., tuple[Tensor, Tensor]] = no_gate,
    memory: MemoryInterface | None = None,
) -> list[Step]:
    """Run dl4mt, or NMT_IA with a writing attention: q = s̃ = GRU₁(r, e(y_{i−1})); s_i = GRU₂(s̃, c_i)."""
    s, cell, steps = initial_state, None, []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], s
        r = previous if memory is None else memory.read(i, previous)
        s_tilde, cell = advance(word, r, cell, first)  # Meng 2016 eq. 7, Sankaran 2016 eq. 2
        c, alignment = attention.read(i, s_tilde, word)  # Meng 2016 eq. 8
        target, source = gate(word, s_tilde, c)
        s, cell = advance(c, s_tilde, cell, scale_rows(second, [(source, len(c))], target, source))  # Meng 2016 eq. 9
        attention.write(i, s)  # Meng 2016 eq. 10
        if memory is not None:
            memory.write(i, s)
        steps.append(Step(s, c, alignment, s_tilde, previous))
    return steps


def luong(
    words: Sequence[Tensor],
    initial_states: Sequence[tuple[Tensor, Tensor]],
    attention: AttentionInterface,
    *,
    layers: Sequence[Weights],
    W_c: Tensor | None,
    input_feeding: bool = True,
    memory: MemoryInterface | None = None,
) -> list[Step]:
    """Run Luong 2015: h_i = top of a stacked LSTM([e(y_{i−1}); h̃_{i−1}]), h̃_i = tanh(W_c [c_i; h_i]), h̃_0 = 0.

    Without attention there is no W_c, and h̃_i = h_i (eq. 2).
    A memory (not in the paper) is read in place of the top layer's previous state, and written with h_i.
    """
    states = list(initial_states)
    attentional = torch.zeros_like(states[-1][0])  # h̃_0 = 0
    steps = []
    for i in range(1, len(words) + 1):
        word, previous = words[i - 1], states[-1][0]
        if memory is not None:
            states[-1] = (memory.read(i, previous), states[-1][1])
        x = torch.cat([word, attentional]) if input_feeding else word  # §3.3
        for number, layer in enumerate(layers):
            h, cell = states[number]
            h, cell = lstm(x, h, cell, **layer)
            states[number] = (h, cell)
            x = h
        c, alignment = attention.read(i, h, word)  # q = h_i
        attentional = h if W_c is None else luong_readout(h, c, W_c=W_c)  # eq. 5
        attention.write(i, h)
        if memory is not None:
            memory.write(i, h)
        steps.append(Step(h, c, alignment, h, previous, attentional))
    return steps


# ---------------------------------------------------------------- initial states


def initial_state_backward(annotations: Sequence[Tensor], *, W: Tensor, b: Tensor | None = None) -> Tensor:
    """Return s_0 = tanh(W h⃖_1 + b) (GroundHog), where h⃖_1 is the second half of h_1."""
    first = annotations[0]
    return torch.tanh(affine(W, first[len(first) // 2 :], b))


def initial_state_mean(annotations: Sequence[Tensor], *, W: Tensor, b: Tensor | None = None) -> Tensor:
    """Return s_0 = tanh(W Σ_j h_j / J + b) (dl4mt)."""
    total = torch.zeros_like(annotations[0])
    for annotation in annotations:
        total = total + annotation
    return torch.tanh(affine(W, total / len(annotations), b))


def initial_states_copy(encoder_states: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """Return the last (h, c) of each encoder layer (Luong 2015)."""
    return [(h, c) for h, c in encoder_states]


# ---------------------------------------------------------------- readouts


def deep_output(
    state: Tensor, word: Tensor, context: Tensor, *, W_l: Tensor, W_p: Tensor, W_c: Tensor, b: Tensor | None = None
) -> Tensor:
    """Return tanh(W_l s_i + W_p e(y_{i−1}) + W_c c_i + b) (dl4mt)."""
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
    """Return W_o t + b_o (GroundHog), where t_l is the maximum of the pair t̃_{2l−1}, t̃_{2l}.

    t̃ = U_o s_{i−1} + V_o e(y_{i−1}) + C_o c_i + b. Sizes in the papers: 1000 → 500 → 620.
    """
    t_tilde = affine(U_o, previous_state, b) + V_o @ word + C_o @ context
    t = []
    for pair in range(len(t_tilde) // 2):
        t.append(torch.maximum(t_tilde[2 * pair], t_tilde[2 * pair + 1]))  # t_l = max(t̃_{2l−1}, t̃_{2l})
    return affine(W_o, torch.stack(t), b_o)


def luong_readout(state: Tensor, context: Tensor, *, W_c: Tensor) -> Tensor:
    """Return h̃_i = tanh(W_c [c_i; h_i]) (Luong 2015 eq. 5)."""
    return torch.tanh(W_c @ torch.cat([context, state]))
