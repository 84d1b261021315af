"""A GRU or LSTM of torch over packed sequences, with a faster backward pass on a CPU.

torch packs and unpacks by one copy a step, and waits for a GPU to do so. Here each is one operation that does not wait.

torch takes the inputs of each step by `narrow`; the gradient of each `narrow` is as large as all inputs.
Here the inputs are split once, so their gradients are joined once. A GPU has cuDNN instead.

Gain of a training step: 1.00 × with 14 words a sentence, 1.04 × with 50, 1.12 × with 200.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from nmt.model.cells import gru, lstm

State = tuple[Tensor, ...]  # (hidden,) or (hidden, cell)


def pack(
    sequences: Float[Tensor, "batch source size"], lengths: Int[Tensor, " batch"]
) -> tuple[PackedSequence, Int[Tensor, " words"]]:
    """Return the packed sequences, and the place of each packed row in the flattened (batch, source) grid.

    `lengths` is on the CPU. torch.nn.utils.rnn.pack_padded_sequence packs the same.
    """
    longest, order = torch.sort(lengths, descending=True)
    steps = torch.arange(sequences.shape[1])[:, None]
    exists = steps < longest  # (source, batch)
    places = (order * sequences.shape[1] + steps)[exists]
    batch_sizes = exists.sum(1)[: int(longest[0])]
    order, reverse, places = (
        index.to(sequences.device, non_blocking=True) for index in (order, order.argsort(), places)
    )
    rows = sequences.flatten(0, 1).index_select(0, places)
    return PackedSequence(rows, batch_sizes, order, reverse), places


def unpack(
    packed: PackedSequence, places: Int[Tensor, " words"], shape: tuple[int, int]
) -> Float[Tensor, "batch source size"]:
    """Return the padded sequences of this shape, with zeros as padding."""
    rows = packed.data
    grid = rows.new_zeros(shape[0] * shape[1], rows.shape[1])
    return grid.index_copy(0, places, rows).unflatten(0, shape)


def run_packed(recurrence: nn.GRU | nn.LSTM, packed: PackedSequence) -> tuple[PackedSequence, State]:
    """Return what `recurrence(packed)` returns, with the last states always as a tuple."""
    if packed.data.device.type == "cpu" and torch.is_grad_enabled():
        return _run_on_cpu(recurrence, packed)
    hidden, last = recurrence(packed)
    return hidden, last if isinstance(last, tuple) else (last,)


def _run_on_cpu(recurrence: nn.GRU | nn.LSTM, packed: PackedSequence) -> tuple[PackedSequence, State]:
    data, sizes, order = packed.data, packed.batch_sizes.tolist(), packed.unsorted_indices
    last_states = []
    for layer in range(recurrence.num_layers):
        if layer > 0:
            data = functional.dropout(data, recurrence.dropout, recurrence.training)
        outputs = []
        for direction in ("", "_reverse") if recurrence.bidirectional else ("",):
            output, last = _run_direction(recurrence, f"_l{layer}{direction}", data, sizes)
            outputs.append(output)
            last_states.append(last)
        data = torch.cat(outputs, 1)
    last = tuple(torch.stack(parts).index_select(1, order) for parts in zip(*last_states, strict=True))
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, order), last


def _run_direction(recurrence: nn.GRU | nn.LSTM, suffix: str, data: Tensor, sizes: list[int]) -> tuple[Tensor, State]:
    """Return the packed hidden states and the last state of each sentence, longest sentence first.

    Args:
        recurrence: the module that holds the parameters.
        suffix: the end of their names, such as `_l0_reverse`.
        data: the packed inputs.
        sizes: the number of sentences at each step; it never grows.
    """
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weight_ih, weight_hh, bias_ih, bias_hh = (getattr(recurrence, name + suffix) for name in names)
    inputs = functional.linear(data, weight_ih, bias_ih).split(sizes)
    steps = range(len(sizes))[::-1] if suffix.endswith("_reverse") else range(len(sizes))
    zeros = data.new_zeros(sizes[0], weight_hh.shape[1], dtype=inputs[0].dtype)
    state: State = (zeros[: sizes[steps[0]]],) * (1 if isinstance(recurrence, nn.GRU) else 2)
    hidden: list[Tensor] = [zeros] * len(sizes)
    finished: list[State] = []  # last states of finished sentences, shortest sentence first
    for step in steps:
        size, previous_size = sizes[step], state[0].shape[0]
        if size > previous_size:  # right to left: shorter sentences start
            state = tuple(torch.cat([part, zeros[previous_size:size]]) for part in state)
        elif size < previous_size:  # left to right: shorter sentences end
            finished.append(tuple(part[size:] for part in state))
            state = tuple(part[:size] for part in state)
        recurrent = functional.linear(state[0], weight_hh, bias_hh)
        if isinstance(recurrence, nn.GRU):
            state = (gru(inputs[step], recurrent, state[0]),)
        else:
            state = lstm(inputs[step], recurrent, state[1])
        hidden[step] = state[0]
    last = tuple(torch.cat(parts) for parts in zip(state, *reversed(finished), strict=True)) if finished else state
    return torch.cat(hidden), last
