"""The packed recurrent layer for CPUs equals the layer of torch, in values and gradients."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from nmt.model.kernels.packed_rnn import run_packed


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("lengths", [[3, 9, 1, 9, 4, 2], [5, 5, 5, 5, 5, 5], [1, 1, 1, 1, 1, 1]])
def test_values_and_gradients_equal_the_layer_of_torch(cell, layers, bidirectional, lengths):
    recurrence = cell(7, 5, num_layers=layers, bidirectional=bidirectional).double()
    sequences = torch.randn(6, max(lengths), 7, dtype=torch.float64, requires_grad=True)
    packed = pack_padded_sequence(sequences, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    results = []
    for run in (recurrence, lambda given: run_packed(recurrence, given)):
        annotations, last = run(packed)
        last = last if isinstance(last, tuple) else (last,)
        total = (annotations.data**2).sum() + sum((part**3).sum() for part in last)
        results.append([annotations.data, *last, *gradients_of(total, sequences, recurrence)])
    torch.testing.assert_close(results[1], results[0])


def gradients_of(total, sequences, recurrence):
    """Return the gradients; the graph is kept, because both results share the packing."""
    return torch.autograd.grad(total, [sequences, *recurrence.parameters()], retain_graph=True)


def test_dropout_acts_between_the_layers():
    recurrence = nn.GRU(4, 3, num_layers=2, dropout=1.0)
    packed = pack_padded_sequence(torch.randn(2, 5, 4), torch.tensor([5, 4]), batch_first=True, enforce_sorted=False)
    blind, _ = run_packed(recurrence, packed)
    other, _ = run_packed(recurrence, packed._replace(data=torch.randn_like(packed.data)))
    torch.testing.assert_close(blind.data, other.data)  # the second layer sees nothing
    recurrence.eval()
    seen, _ = run_packed(recurrence, packed)
    assert not torch.allclose(seen.data, blind.data)


@pytest.mark.parametrize("cell", [nn.GRU, nn.LSTM])
def test_bfloat16_is_close_to_float32_and_to_torch(cell):
    recurrence = cell(7, 5, bidirectional=True)
    sequences = torch.randn(4, 30, 7)
    packed = pack_padded_sequence(sequences, torch.tensor([30, 9, 30, 1]), batch_first=True, enforce_sorted=False)
    expected, _ = recurrence(packed)
    with torch.autocast("cpu", torch.bfloat16):
        ours, _ = run_packed(recurrence, packed)
        torchs, _ = recurrence(packed)
    torch.testing.assert_close(ours.data.float(), expected.data, atol=0.02, rtol=0)
    torch.testing.assert_close(ours.data.float(), torchs.data.float(), atol=0.02, rtol=0)
