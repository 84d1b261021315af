"""A recurrent layer over packed sequences, for training on a CPU.

torch's own takes each step's inputs out of the packed ones by `narrow`, whose gradient is a tensor as large as all of
them, at every step: the time of its backward pass grows with the square of the length (a third of a training step at
100 words). Here they are split once, so that their gradients are joined once. Everything else is torch's, parameters
included; a GPU has cuDNN.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from nmt.model.cells import gru, lstm

State = tuple[Tensor, ...]  # (hidden,) or (hidden, cell)
Step = Callable[[Float[Tensor, "sentence gates"], Float[Tensor, "sentence gates"], State], State]


def run_packed(recurrence: nn.GRU | nn.LSTM, packed: PackedSequence) -> tuple[PackedSequence, State]:
    """What calling `recurrence` gives: the top layer's states, and each direction's last ones, (layer * direction,
    sentence, size), of the sentences in their own order."""
    step = _gru_step if isinstance(recurrence, nn.GRU) else _lstm_step
    kept = 1 if isinstance(recurrence, nn.GRU) else 2
    sizes, data, last = packed.batch_sizes.tolist(), packed.data, []
    for layer in range(recurrence.num_layers):
        if layer > 0:
            data = functional.dropout(data, recurrence.dropout, recurrence.training)
        directions = []
        for reverse in range(2 if recurrence.bidirectional else 1):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            suffix = f"_l{layer}{'_reverse' if reverse else ''}"
            parameters = [getattr(recurrence, name + suffix) for name in names]
            states, ended = _direction(data, sizes, parameters, step, kept, reverse=bool(reverse))
            directions.append(states)
            last.append(ended)
        data = torch.cat(directions, 1)
    order = packed.unsorted_indices
    stacked = tuple(torch.stack(parts).index_select(1, order) for parts in zip(*last, strict=True))
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, order), stacked


def _direction(
    data: Tensor, sizes: list[int], parameters: list[Tensor], step: Step, kept: int, *, reverse: bool
) -> tuple[Tensor, State]:
    """Packed hidden states, and the sentences' last states, in the sorted order."""
    weight_inputs, weight_hidden, bias_inputs, bias_hidden = parameters
    inputs = functional.linear(data, weight_inputs, bias_inputs).split(sizes)
    places = range(len(sizes))[::-1] if reverse else range(len(sizes))
    start = data.new_zeros(sizes[0], weight_hidden.shape[1], dtype=inputs[0].dtype)
    state: State = (start[: sizes[places[0]]],) * kept
    hidden: list[Tensor] = [start] * len(sizes)
    ended: list[State] = []  # of the sentences that ended, the shortest first
    for place in places:
        now, before = sizes[place], state[0].shape[0]
        if now > before:  # backwards, shorter sentences join
            state = tuple(torch.cat([part, start[before:now]]) for part in state)
        elif now < before:  # forwards, they leave
            ended.append(tuple(part[now:] for part in state))
            state = tuple(part[:now] for part in state)
        state = step(inputs[place], functional.linear(state[0], weight_hidden, bias_hidden), state)
        hidden[place] = state[0]
    last = tuple(torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True)) if ended else state
    return torch.cat(hidden), last


def _gru_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    return (gru(inputs, recurrent, state[0]),)


def _lstm_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    return lstm(inputs + recurrent, state[1])
