"""Recurrent cells and encoders, one vector at a time.

Weights are (out, in) and stacked over the gates as in PyTorch: r, z, n for the GRU, i, f, g, o for the LSTM.
The weights of a cell are a dict with the keys W_ih, W_hh and, if it has biases, b_ih, b_hh.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Weights = Mapping[str, Tensor | None]


def affine(W: Tensor, x: Tensor, b: Tensor | None = None) -> Tensor:
    """Return W x + b; None: no bias."""
    return W @ x if b is None else W @ x + b


def gru(
    inputs: Tensor,
    hidden: Tensor,
    *,
    W_ih: Tensor,
    W_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return the next state of a GRU in PyTorch's form: r is applied after the product, and z keeps the old state."""
    H = len(hidden)
    from_input = affine(W_ih, inputs, b_ih)
    from_hidden = affine(W_hh, hidden, b_hh)
    r = torch.sigmoid(from_input[0:H] + from_hidden[0:H])  # r = σ(W_r x + U_r s)
    z = torch.sigmoid(from_input[H : 2 * H] + from_hidden[H : 2 * H])  # z = σ(W_z x + U_z s)
    n = torch.tanh(from_input[2 * H : 3 * H] + r * from_hidden[2 * H : 3 * H])  # s̃ = tanh(W x + r ⊙ (U s))
    return (1 - z) * n + z * hidden  # s' = (1 − z) ⊙ s̃ + z ⊙ s


def lstm(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    *,
    W_ih: Tensor,
    W_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the next (h, c) of an LSTM without peepholes (Zaremba 2015)."""
    H = len(hidden)
    gates = affine(W_ih, inputs, b_ih) + affine(W_hh, hidden, b_hh)
    i = torch.sigmoid(gates[0:H])
    f = torch.sigmoid(gates[H : 2 * H])
    g = torch.tanh(gates[2 * H : 3 * H])
    o = torch.sigmoid(gates[3 * H : 4 * H])
    next_cell = f * cell + i * g  # c' = f ⊙ c + i ⊙ g
    return o * torch.tanh(next_cell), next_cell  # h' = o ⊙ tanh(c')


def bigru_encoder(embeddings: Sequence[Tensor], *, forward: Weights, backward: Weights) -> list[Tensor]:
    """Return the annotations h_j = [forward; backward] (Tu 2016, after eq. 3); both directions start at zero."""
    J = len(embeddings)
    rightward: list[Tensor] = []
    state = embeddings[0].new_zeros(forward["W_hh"].shape[1])
    for j in range(1, J + 1):
        state = gru(embeddings[j - 1], state, **forward)  # →h_j = f(x_j, →h_{j−1})
        rightward.append(state)
    leftward: list[Tensor] = [torch.empty(0)] * J
    state = embeddings[0].new_zeros(backward["W_hh"].shape[1])
    for j in range(J, 0, -1):
        state = gru(embeddings[j - 1], state, **backward)  # ←h_j = f(x_j, ←h_{j+1})
        leftward[j - 1] = state
    return [torch.cat([rightward[j - 1], leftward[j - 1]]) for j in range(1, J + 1)]  # h_j = [→h_j; ←h_j]


def stacked_lstm_encoder(
    embeddings: Sequence[Tensor], *, layers: Sequence[Weights], reverse: bool = False
) -> tuple[list[Tensor], list[tuple[Tensor, Tensor]]]:
    """Return the annotations of the top layer, from left to right, and the last (h, c) of each layer.

    `reverse` reads the source from right to left, so that the last state is the one at the first word.
    """
    J = len(embeddings)
    order = list(range(J, 0, -1)) if reverse else list(range(1, J + 1))
    states = [(embeddings[0].new_zeros(layer["W_hh"].shape[1]),) * 2 for layer in layers]
    annotations: list[Tensor] = [torch.empty(0)] * J
    for j in order:
        x = embeddings[j - 1]
        for number, layer in enumerate(layers):
            h, c = states[number]
            h, c = lstm(x, h, c, **layer)
            states[number] = (h, c)
            x = h
        annotations[j - 1] = x
    return annotations, states
