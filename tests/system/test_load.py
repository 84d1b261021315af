"""The load of the machine, with and without GPUs."""

import pytest

psutil = pytest.importorskip("psutil", reason="pip install psutil")

from nmt.system.load import measure_load  # noqa: E402, because it needs psutil


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Return a function that puts an nvidia-smi with this output and status on the path."""

    def install(output: str, status: int = 0) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return install


def test_processor_and_memory_are_measured():
    load = measure_load()
    used, total = load["memory"]
    assert 0 <= load["cpu"] <= 100
    assert 0 < used < total == psutil.virtual_memory().total


def test_each_gpu_has_its_load_and_memory(gpus):
    gpus("NVIDIA H100 80GB HBM3, 93, 40960, 81559\nNVIDIA H100 80GB HBM3, [N/A], [N/A], 81559")
    busy, unknown = measure_load()["gpus"]
    assert busy == {"name": "NVIDIA H100 80GB HBM3", "load": 93.0, "memory": [40960 * 2**20, 81559 * 2**20]}
    assert (unknown["load"], unknown["memory"]) == (None, None)


@pytest.mark.parametrize(("output", "status"), [("no devices were found", 0), ("Failed to initialize NVML", 9)])
def test_a_driver_that_does_not_answer_is_no_gpu(gpus, output, status):
    gpus(output, status)
    assert measure_load()["gpus"] == []
