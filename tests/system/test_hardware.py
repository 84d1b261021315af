"""The description of the hardware."""

import subprocess
import sys

import pytest
import torch
from commands import ROOT

from nmt.system import hardware
from nmt.system.hardware import describe_hardware, hardware_label, has_bfloat16_products, has_exact_int8_sums


def test_a_gpu_is_named_only_if_the_run_used_it(monkeypatch):
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
def test_the_label_of_the_hardware_is_short(more, words):
    assert hardware_label({"processor": "EPYC", "cores": 8, "threads": 2} | more) == words


@pytest.mark.parametrize(
    ("cpuinfo", "bfloat16", "int8"),
    [
        ("model name\t: EPYC\nflags\t\t: fpu avx2 avx512_bf16 avx512_vnni\n", True, True),
        ("model name\t: Xeon\nflags\t\t: fpu amx_bf16 amx_tile\n", True, False),
        ("model name\t: Xeon\nflags\t\t: fpu avx2 avx512_vnni\n", False, True),
        ("model name\t: EPYC\nflags\t\t: fpu avx2 avx512f avx_vnni\n", False, False),
        ("", True, False),
    ],
)
def test_what_a_processor_multiplies_is_known(cpuinfo, bfloat16, int8, monkeypatch):
    monkeypatch.setattr(hardware.Path, "read_text", lambda *_, **__: cpuinfo)
    assert (has_bfloat16_products(), has_exact_int8_sums()) == (bfloat16, int8)


@pytest.mark.parametrize("module", ["nmt.data.corpus_cache", "nmt.launch.sweep"])
def test_module_does_not_import_torch(module):
    """Each worker that prepares data would import it again, and Hydra imports launchers for every command."""
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"
