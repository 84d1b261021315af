"""The moving average of a run's weights."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from nmt.cli.average_checkpoints import main
from nmt.training.weight_averaging import moving_average


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.register_buffer("steps", torch.tensor(0))


def averages(values, decay):
    """Of a weight that has these values, one after the other; and the last of its counting buffer."""
    model = Model()
    average = AveragedModel(model, multi_avg_fn=partial(moving_average, decay=decay), use_buffers=True)
    for step, value in enumerate(values):
        model.weight.data.fill_(value)
        model.steps.fill_(step)
        average.update_parameters(model)
        yield float(average.module.weight[0]), int(average.module.steps)


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_it_is_its_equation(decay):
    values = [float(value) for value in torch.randn(60)]
    expected = values[0]
    for n, (value, (found, steps)) in enumerate(zip(values, averages(values, decay), strict=True)):
        if n:
            d = min(decay, (1 + n) / (10 + n))
            expected = d * expected + (1 - d) * value
        assert found == pytest.approx(expected)
        assert steps == n


def test_the_first_weights_are_soon_forgotten():
    *_, (share, _) = averages([1.0] + [0.0] * 100, 0.999)
    assert share < 1e-6  # 0.9 with this decay from the start


def test_help_is_the_usage_of_the_command_alone(capsys):
    main(["--help"])
    assert capsys.readouterr().out.endswith("output=RUN/checkpoints/mean.ckpt\n")
