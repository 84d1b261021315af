"""Learning rates over the epochs."""

import torch

from nmt.training.lr_schedule import halving


def test_luongs_rate_is_halved_after_every_epoch_once_five_are_over():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = halving(optimizer, after=5)
    rates = []
    for _ in range(8):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == [1, 1, 1, 1, 1, 0.5, 0.25, 0.125]


def test_a_constant_rate_needs_no_schedule():
    assert halving(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), after=None) is None
