"""The moving average of a run's weights."""

from functools import partial

import pytest
import pytorch_lightning
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from nmt.training.weight_averaging import MovingAverage, moving_average


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


class Falling(pytorch_lightning.LightningModule):
    """A weight that falls by 0.1 in each of five steps."""

    def __init__(self):
        super().__init__()
        self.weight, self.validated = nn.Parameter(torch.zeros(1, dtype=torch.float64)), []

    def training_step(self, batch, _):
        return self.weight.sum()

    def validation_step(self, batch, _):
        self.validated.append(self.weight.item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return torch.ones(5, 1)

    def val_dataloader(self):
        return torch.ones(1, 1)


class Save(pytorch_lightning.Callback):
    """Save a checkpoint within the validation and after it."""

    def on_validation_batch_end(self, trainer, *_):
        trainer.save_checkpoint(f"{trainer.default_root_dir}/within.ckpt")

    def on_validation_end(self, trainer, *_):
        trainer.save_checkpoint(f"{trainer.default_root_dir}/after.ckpt")


def test_the_mean_is_validated_and_stored_and_training_keeps_the_weights(tmp_path):
    *_, (mean, _) = averages([-0.1, -0.2, -0.3, -0.4, -0.5], 0.999)
    callbacks = [MovingAverage(multi_avg_fn=partial(moving_average, decay=0.999)), Save()]
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    limits = {"max_epochs": 1, "num_sanity_val_steps": 0, "accelerator": "cpu"}
    model = Falling()
    pytorch_lightning.Trainer(default_root_dir=tmp_path, callbacks=callbacks, **quiet, **limits).fit(model)
    assert model.validated == [pytest.approx(mean)]
    for name in ("within", "after"):
        stored = torch.load(tmp_path / f"{name}.ckpt", weights_only=True)
        assert stored["state_dict"]["weight"].item() == pytest.approx(mean)
        assert stored["current_model_state"]["weight"].item() == pytest.approx(-0.5)
    assert model.weight.item() == pytest.approx(-0.5)
