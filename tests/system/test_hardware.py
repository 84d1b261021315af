"""What a run says it was made on."""

import subprocess
import sys

import pytest
import torch
from commands import ROOT

from nmt.system.hardware import describe_hardware, hardware_label


def test_a_run_on_the_processor_names_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Abacus {device.index}")
    assert "gpu" not in describe_hardware(torch.device("cpu"))
    assert describe_hardware(torch.device("cuda", 1))["gpu"] == "Abacus 1"
    assert describe_hardware()["threads"] == torch.get_num_threads()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "EPYC, 2 threads"),
        ({"ranks": 1, "threads": 1}, "EPYC, 1 thread"),
        ({"ranks": 2}, "2 × EPYC, 2 threads"),
        ({"ranks": 4, "gpu": "H200"}, "4 × H200"),
    ],
)
def test_it_is_said_in_a_few_words(more, words):
    assert hardware_label({"processor": "EPYC", "cores": 8, "threads": 2} | more) == words


@pytest.mark.parametrize("module", ["nmt.data.corpus_cache", "nmt.launch.sweep"])
def test_no_torch_is_needed(module):
    """To prepare data: every worker would import it anew. By launchers: Hydra imports them whatever it is told."""
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"
