"""Steps that are skipped, and the reports on them."""

import json
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nmt.errors import ConfigurationError, UserError
from nmt.training.lightning_module import TrainingModule
from nmt.training.nonfinite_guard import FEWEST, LOGGED, WINDOW, NonfiniteGuard


@pytest.fixture
def guard(tmp_path):
    return NonfiniteGuard(path=str(tmp_path / "unusual_steps.jsonl"), most_in_a_row=3, spike=10.0)


def allows(guard, loss, norm, step=7, sentences=(3, 1)):
    return guard.allows(loss, norm, step, lambda: list(sentences), str)


def reports(guard):
    return [json.loads(line) for line in guard.path.read_text().splitlines()] if guard.path.is_file() else []


@pytest.mark.parametrize(
    ("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf), (-math.inf, math.nan)]
)
def test_a_nonfinite_step_is_skipped_counted_and_reported(guard, loss, norm, caplog):
    assert not allows(guard, loss, norm)
    assert guard.skipped == 1
    assert reports(guard) == [
        {
            "what": "step skipped",
            "step": 7,
            "loss": loss if math.isfinite(loss) else str(loss),
            "gradient_norm": norm if math.isfinite(norm) else str(norm),
            "sentences": [3, 1],
        }
    ]
    assert "step skipped at step 7" in caplog.text
    assert allows(guard, 1.0, 1.0)
    assert guard.skipped == 1


def test_the_run_ends_after_several_skipped_steps_in_a_row(guard):
    for _ in range(5):  # never three one after another
        assert not allows(guard, math.nan, 1.0)
        assert not allows(guard, math.nan, 1.0)
        assert allows(guard, 1.0, 1.0)
    allows(guard, math.nan, 1.0)
    allows(guard, math.nan, 1.0)
    with pytest.raises(
        UserError, match=r"NaN or infinite in 3 steps .* up to step 11.*lower optimizer.*unusual_steps\.jsonl"
    ):
        allows(guard, math.nan, 1.0, step=11)


def test_a_gradient_spike_is_reported_and_the_step_taken(guard, caplog):
    for _ in range(FEWEST - 1):
        assert allows(guard, 2.0, 1.0)
    assert allows(guard, 2.0, 50.0)  # not yet sure
    assert guard.spikes == 0
    assert allows(guard, 2.0, 9.9)
    assert allows(guard, 2.0, 10.1, step=21)
    assert guard.spikes == 1
    assert [one["what"] for one in reports(guard)] == ["gradient spike"]
    assert "gradient spike at step 21: loss 2, gradient norm 10.1, usually 1" in caplog.text


def test_the_log_has_the_first_spikes_and_the_file_has_all(guard, caplog):
    for step in range(FEWEST + 10 * LOGGED):
        allows(guard, 2.0, 1.0 if step < FEWEST or step % 2 else 50.0, step=step)
    spikes = [step for step in range(FEWEST, FEWEST + 10 * LOGGED) if step % 2 == 0]
    assert [one["step"] for one in reports(guard)] == spikes
    first = [f"gradient spike at step {step}" for step in spikes[:LOGGED]]
    *logged, last = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[0] for message in logged] == first
    assert last == f"further gradient spikes are written to {guard.path} only"
    assert not allows(guard, math.nan, 1.0, step=99)
    assert "step skipped at step 99" in caplog.text


def test_only_the_last_norms_say_what_is_usual(guard):
    for norm in [1.0] * 2 * WINDOW + [100.0] * WINDOW:
        allows(guard, 2.0, norm)
    before = guard.spikes
    allows(guard, 2.0, 500.0)
    assert guard.spikes == before
    allows(guard, 2.0, 1001.0)
    assert guard.spikes == before + 1


def test_counts_and_what_is_usual_outlast_a_stop(guard, tmp_path):
    for _ in range(FEWEST):
        allows(guard, 1.0, 1.0)
    allows(guard, math.nan, 1.0, step=20)
    allows(guard, math.nan, 1.0, step=21)
    other = NonfiniteGuard(path=str(guard.path), most_in_a_row=3, spike=10.0)
    other.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    other.drop_reports_from(21)  # the step is made again
    assert [one["step"] for one in reports(other)] == [20]
    with pytest.raises(UserError, match="3 steps"):
        allows(other, math.nan, 1.0)
    allows(other, 1.0, 10.5)
    assert other.spikes == 1


def test_damaged_reports_do_not_stop_a_resumed_run(guard):
    allows(guard, math.nan, 1.0, step=20)
    with guard.path.open("ab") as file:
        file.write(bytes(50) + b'\n{"step": "x"}\n[1]\n\xff\n{"st')
    guard.drop_reports_from(30)
    assert [one["step"] for one in reports(guard)] == [20]


def test_settings_out_of_range_are_named():
    with pytest.raises(ConfigurationError, match=r"finite\.most_in_a_row=0"):
        NonfiniteGuard(path="", most_in_a_row=0, spike=10.0)
    with pytest.raises(ConfigurationError, match=r"finite\.spike=1"):
        NonfiniteGuard(path="", most_in_a_row=1, spike=1)


class Readings(TorchFunctionMode):
    """Count how often numbers of tensors are read, which waits for a GPU."""

    lists = 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        name = getattr(function, "__name__", "")
        assert name not in ("item", "__float__", "__int__", "__bool__"), name
        self.lists += name == "tolist"
        return function(*arguments, **(keywords or {}))


METHODS = ("_skip_nonfinite_step", "_is_allowed", "read_last_step", "configure_gradient_clipping")


def training_of(guard, device):
    """Return a model of three parameters, and what a TrainingModule needs to clip their gradients."""
    model = torch.nn.Linear(2, 1)
    trainer = SimpleNamespace(precision="32-true", global_step=3, is_global_zero=True)
    training = SimpleNamespace(
        trainer=trainer, model=model, guard=guard, batches=[], device=torch.device(device), unread=None
    )
    training.step_totals = torch.tensor([1.5, 4.0, 12.0, 2.0])  # objective, pieces, nats and penalty
    for name in METHODS:
        setattr(training, name, partial(getattr(TrainingModule, name), training))
    return model, training


def fill_gradients(model, value):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)


@pytest.mark.parametrize("algorithm", [None, "norm", "value"])
def test_a_nonfinite_step_is_skipped_whatever_gradients_are_clipped_by(guard, algorithm):
    model, training = training_of(guard, "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for gradient, left in ((2.0, 2), (math.nan, 0)):
        fill_gradients(model, gradient)
        with Readings() as readings:
            training.configure_gradient_clipping(optimizer, 0.5, algorithm)
        assert readings.lists == 1
        assert training.losses == [3.0, 0.5]
        assert sum(parameter.grad is not None for parameter in model.parameters()) == left
        if left:
            largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters())
            assert largest == pytest.approx(0.5 if algorithm == "value" else 0.5 / math.sqrt(3), rel=1e-4)
            assert float(training.gradient_norm) == pytest.approx(2 * math.sqrt(3))


def test_on_a_gpu_a_fused_optimizer_skips_the_step_and_the_guard_counts_it_with_the_next(guard):
    model, training = training_of(guard, "cuda")  # its tensors are on the CPU, whose fused Adam skips alike
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    weights, skipped = [], []
    for gradient in (2.0, math.nan, 2.0):
        fill_gradients(model, gradient)
        training.configure_gradient_clipping(optimizer, 0.5, None)
        skipped.append(guard.skipped)
        optimizer.step()
        training.trainer.global_step += 1
        weights.append(model.weight.detach().clone())
    assert skipped == [0, 0, 1]
    assert [one["step"] for one in reports(guard)] == [4]
    assert torch.equal(weights[1], weights[0])
    assert not torch.equal(weights[2], weights[1])
    assert optimizer.state[model.weight]["step"] == 2
    assert len(guard.norms) == 1
    training.read_last_step()
    assert len(guard.norms) == 2


def test_on_a_gpu_other_optimizers_wait_for_the_guard(guard):
    model, training = training_of(guard, "cuda")
    optimizer = torch.optim.Adadelta(model.parameters())
    fill_gradients(model, math.nan)
    training.configure_gradient_clipping(optimizer, 0.5, None)
    assert guard.skipped == 1
    assert model.weight.grad is None
