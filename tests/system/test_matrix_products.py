"""The choice of a library for float32 products: faster and as exact, stored for a machine."""

import json
import time

import pytest
import torch
from torch import nn

from nmt.errors import ConfigurationError
from nmt.system import matrix_products
from nmt.system.matrix_products import FILE, resolve_precision, set_precision, set_up_products


@pytest.fixture(autouse=True)
def stored(tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_CACHE", str(tmp_path))
    yield tmp_path / FILE
    set_precision("highest")


def fake_products(monkeypatch, seconds: dict[str, float], error: float = 0.0) -> list[str]:
    """Make products take a given time, with an error under `medium`; return the precisions that are used."""
    used, linear = [], torch.nn.functional.linear

    def product(vectors, weight):
        precision = torch.get_float32_matmul_precision()
        used.append(precision)
        time.sleep(seconds[precision])
        exact = linear(vectors, weight)
        return exact * (1 + error) if precision == "medium" else exact

    monkeypatch.setattr(torch.nn.functional, "linear", product)
    return used


@pytest.mark.parametrize(
    ("seconds", "error", "chosen"),
    [
        ({"highest": 0.004, "medium": 0.002}, 0.0, "medium"),
        ({"highest": 0.004, "medium": 0.002}, 9e-6, "medium"),
        ({"highest": 0.004, "medium": 0.002}, 2e-5, "highest"),  # rounded
        ({"highest": 0.002, "medium": 0.004}, 0.0, "highest"),
        ({"highest": 0.0042, "medium": 0.004}, 0.0, "highest"),  # hardly faster
    ],
)
def test_a_library_is_chosen_where_it_is_faster_and_as_exact(seconds, error, chosen, monkeypatch):
    fake_products(monkeypatch, seconds, error)
    assert resolve_precision("auto", nn.Linear(8, 16), "cpu") == chosen
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_choice_is_stored_and_not_timed_again(stored, monkeypatch):
    used = fake_products(monkeypatch, {"highest": 0.002, "medium": 0.0})
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 5000))
    assert resolve_precision("auto", model, "cpu") == "medium"
    assert set(json.loads(stored.read_text()).values()) == {"medium"}
    timed = len(used)
    assert resolve_precision("auto", model, "cpu") == "medium"
    assert len(used) == timed
    stored.write_text("[1]")  # damaged
    assert resolve_precision("auto", model, "cpu") == "medium"
    assert len(used) == 2 * timed


def test_the_choice_does_not_change_the_random_numbers_of_a_run():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    model = nn.Linear(2, 2, bias=False)
    torch.manual_seed(1)
    resolve_precision("auto", model, "cpu")
    torch.testing.assert_close(torch.rand(3), expected)


def test_a_given_precision_is_taken_and_a_gpu_computes_exactly():
    model = nn.Linear(2, 2)
    assert [resolve_precision(one, model, "cpu") for one in ("highest", "high", "medium")] == [
        "highest",
        "high",
        "medium",
    ]
    assert resolve_precision("auto", model, "cuda") == "highest"
    with pytest.raises(ConfigurationError, match="matmul_precision=low: choose auto, highest, high, medium"):
        resolve_precision("low", model, "cpu")


def test_a_resumed_run_keeps_its_precision(monkeypatch):
    fake_products(monkeypatch, {"highest": 0.0, "medium": 0.002})
    model, cpu = nn.Linear(2, 2), torch.device("cpu")
    assert set_up_products("auto", "medium", model, cpu) == "medium"
    assert torch.get_float32_matmul_precision() == "medium"
    assert set_up_products("highest", "medium", model, cpu) == "highest"
    assert set_up_products("auto", None, model, cpu) == "highest"
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_folder_without_permission_to_write_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "file" / "below"))
    assert matrix_products.resolve_precision("auto", nn.Linear(2, 2), "cpu") in ("highest", "medium")
