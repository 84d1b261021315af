"""Steps that are left out, and what is told of them."""

import json
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from nmt.errors import ConfigurationError, UserError
from nmt.training.lightning_module import Training
from nmt.training.nonfinite_guard import LOUD, SURE, Finite


@pytest.fixture
def finite(tmp_path):
    return Finite(path=str(tmp_path / "unusual_steps.jsonl"), most_in_a_row=3, spike=10.0)


def passes(finite, loss, norm, step=7, sentences=(3, 1)):
    return finite.passes(loss, norm, step, list(sentences), writes=True)


def told(finite):
    return [json.loads(line) for line in finite.path.read_text().splitlines()] if finite.path.is_file() else []


@pytest.mark.parametrize(
    ("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf), (-math.inf, math.nan)]
)
def test_what_is_no_number_is_left_out_counted_and_told_with_its_sentences(finite, loss, norm, caplog):
    assert not passes(finite, loss, norm)
    assert finite.left_out == 1
    assert told(finite) == [
        {
            "what": "step left out",
            "step": 7,
            "loss": loss if math.isfinite(loss) else str(loss),
            "gradient_norm": norm if math.isfinite(norm) else str(norm),
            "sentences": [3, 1],
        }
    ]
    assert "step left out at step 7" in caplog.text
    assert passes(finite, 1.0, 1.0)
    assert finite.left_out == 1


def test_after_some_in_a_row_the_run_ends_and_says_why(finite):
    for _ in range(5):  # never three one after another
        assert not passes(finite, math.nan, 1.0)
        assert not passes(finite, math.nan, 1.0)
        assert passes(finite, 1.0, 1.0)
    passes(finite, math.nan, 1.0)
    passes(finite, math.nan, 1.0)
    with pytest.raises(
        UserError, match=r"no number in 3 steps .* up to step 11 .*unusual_steps\.jsonl.*lower optimizer"
    ):
        passes(finite, math.nan, 1.0, step=11)


def test_a_spike_is_told_of_and_taken(finite, caplog):
    for _ in range(SURE - 1):
        assert passes(finite, 2.0, 1.0)
    assert passes(finite, 2.0, 50.0)  # not yet sure
    assert finite.spikes == 0
    assert passes(finite, 2.0, 9.9)
    assert passes(finite, 2.0, 10.1, step=21)
    assert finite.spikes == 1
    assert [one["what"] for one in told(finite)] == ["gradient spike"]
    assert "gradient spike at step 21: loss 2, gradient norm 10.1, usually 1" in caplog.text


def test_the_terminal_hears_of_the_first_spikes_and_the_file_of_all(finite, caplog):
    for step in range(SURE + 10 * LOUD):
        passes(finite, 2.0, 1.0 if step < SURE or step % 2 else 50.0, step=step)
    spikes = [step for step in range(SURE, SURE + 10 * LOUD) if step % 2 == 0]
    assert [one["step"] for one in told(finite)] == spikes
    first = [f"gradient spike at step {step}" for step in spikes[:LOUD]]
    *heard, last = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[0] for message in heard] == first
    assert last == f"further gradient spikes are told of in {finite.path} alone"
    assert not passes(finite, math.nan, 1.0, step=99)
    assert "step left out at step 99" in caplog.text


def test_counts_and_what_is_usual_outlast_a_stop(finite, tmp_path):
    for _ in range(SURE):
        passes(finite, 1.0, 1.0)
    passes(finite, math.nan, 1.0, step=20)
    passes(finite, math.nan, 1.0, step=21)
    other = Finite(path=str(finite.path), most_in_a_row=3, spike=10.0)
    other.load_state_dict(json.loads(json.dumps(finite.state_dict())))
    other.begin(21)  # the step is made again
    assert [one["step"] for one in told(other)] == [20]
    assert other.is_unusual(1.0, 10.5)
    with pytest.raises(UserError, match="3 steps"):
        passes(other, math.nan, 1.0)


def test_settings_without_a_sense_are_named():
    with pytest.raises(ConfigurationError, match=r"finite\.most_in_a_row=0"):
        Finite(path="", most_in_a_row=0, spike=10.0)
    with pytest.raises(ConfigurationError, match=r"finite\.spike=1"):
        Finite(path="", most_in_a_row=1, spike=1)


@pytest.mark.parametrize("algorithm", [None, "norm", "value"])
def test_a_step_that_is_no_number_is_left_out_whatever_gradients_are_clipped_by(finite, algorithm):
    model = torch.nn.Linear(2, 1)
    trainer = SimpleNamespace(precision="32-true", global_step=3, is_global_zero=True)
    training = SimpleNamespace(trainer=trainer, model=model, finite=finite, batches=[], objective=1.0)
    training.clip_gradients = lambda *how: torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
    training._leave_out_what_is_no_number = partial(Training._leave_out_what_is_no_number, training)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for gradient, left in ((2.0, 2), (math.nan, 0)):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        Training.configure_gradient_clipping(training, optimizer, 0.5, algorithm)
        assert sum(parameter.grad is not None for parameter in model.parameters()) == left
        if left:
            largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters())
            assert largest == pytest.approx(0.5 if algorithm == "value" else 0.5 / math.sqrt(3), rel=1e-4)
            assert float(training.gradient_norm) == pytest.approx(2 * math.sqrt(3))
