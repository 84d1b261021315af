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
    """Yield the average of a weight that takes these values in turn, and a counting buffer."""
    model = Model()
    average = AveragedModel(model, multi_avg_fn=partial(moving_average, decay=decay), use_buffers=True)
    for step, value in enumerate(values):
        model.weight.data.fill_(value)
        model.steps.fill_(step)
        average.update_parameters(model)
        yield float(average.module.weight[0]), int(average.module.steps)


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_average_follows_its_equation(decay):
    values = [float(value) for value in torch.randn(60)]
    expected = values[0]
    for n, (value, (average, steps)) in enumerate(zip(values, averages(values, decay), strict=True)):
        if n:
            d = min(decay, (1 + n) / (10 + n))
            expected = d * expected + (1 - d) * value
        assert average == pytest.approx(expected)
        assert steps == n


def test_the_initial_weights_fade_quickly():
    *_, (share, _) = averages([1.0] + [0.0] * 100, 0.999)
    assert share < 1e-6  # 0.9 with this decay from the start


def test_help_prints_the_usage_of_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["average_checkpoints.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert capsys.readouterr().out.endswith("output=RUN/checkpoints/mean.ckpt\n")
