"""The example of docs/extending.md, added to a copy of the project."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT
from compositions import SOURCE_WORDS, TARGET_WORDS, composed
from documented_files import USERS, documented_files
from random_batches import batch_of, random_rows

STEPS = ("size=tiny", "debug=steps", "logger=none", "data.train.count=60", "data.valid.count=8", "data.batches.size=8")


def run_python(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_documented_mechanism_passes_the_model_tests_and_trains(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in ("nmt", "conf", "tests", "hydra_plugins"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignored)
    for file in ("train.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    written = [(name, content) for name, content in documented_files() if not name.startswith(USERS)]
    assert len(written) == 4
    for name, content in written:
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(content, encoding="utf-8")
    chosen = "cosine and (conditional or window or literal or forced or parameters)"
    tested = run_python(tmp_path, "-m", "pytest", "-n0", "-m", "", "tests/model", "tests/translate", "-k", chosen)
    assert int(re.search(r"(\d+) passed", tested)[1]) > 20
    settings = ("attention=cosine", "attention/coverage=gru", "attention.score.temperature=10")
    assert "completed" in run_python(tmp_path, "train.py", *STEPS, *settings)


EXAMPLES = {  # class: where it is written, and how it is chosen
    "Tempered": ("nmt.model.attention.weights", ["+attention.weights.temperature=2.0"], "attention.weights"),
    "LastAttention": ("nmt.model.attention.coverage", ["attention/coverage=linguistic"], "attention.coverage"),
    "Entropy": ("nmt.model.attention.penalty", ["attention/penalty=coverage"], "attention.penalty"),
    "Projected": ("nmt.model.decoder.recurrent", ["decoder/cell=lstm", "decoder/context_gate=both"], "decoder"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_short_example_of_a_part_trains(name, monkeypatch):
    module, choices, key = EXAMPLES[name]
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = re.search(rf"^```python\n(class {name}\(.*?)^```$", text, re.M | re.S)[1]
    namespace = dict(vars(importlib.import_module(module)))
    exec(code, namespace)
    monkeypatch.setattr(f"{module}.{name}", namespace[name], raising=False)
    batch = batch_of(random_rows([5, 2], SOURCE_WORDS, seed=1), random_rows([3, 6], TARGET_WORDS, seed=2))
    model = composed(*choices, f"{key}._target_={module}.{name}")
    before = model.loss(batch).objective
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
    assert model.loss(batch).objective < before
