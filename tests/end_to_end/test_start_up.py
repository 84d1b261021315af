"""Commands import no library before they need it, because each takes a part of a second."""

import subprocess
import sys

import pytest
from commands import ROOT
from untrained import make_content, write_checkpoint

TRAIN = """
import os, sys
from nmt.cli.train import main
from nmt.training.lightning_module import TrainingModule
def print_modules(*_):
    print("modules:", *sys.modules, flush=True)
    os._exit(0)
TrainingModule.training_step = print_modules
main()
"""
TRANSLATE = """
import sys
from nmt.cli.translate import main
main()
print("modules:", *sys.modules)
"""


def list_modules(program: str, *arguments: str, stdin: str = "") -> set[str]:
    """Return the modules that a program has imported when it prints them."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.rpartition("modules: ")[2].split())


@pytest.mark.parametrize(("logger", "needed"), [("none", set()), ("local", {"wandb"})])
def test_training_imports_few_libraries_before_its_first_step(tmp_path, logger, needed):
    settings = ("size=tiny", "data.train.count=60", "data.valid.count=8", f"logger={logger}", "threads=1")
    modules = list_modules(TRAIN, *settings, f"hydra.run.dir={tmp_path}")
    assert {"torch", "pytorch_lightning"} | needed <= modules
    assert not modules & ({"sacremoses", "pandas", "datasets", "thot", "wandb", "starlette"} - needed)


def test_translating_imports_few_libraries_before_its_first_line(tmp_path):
    run = write_checkpoint(tmp_path / "run", make_content("size=tiny"))
    modules = list_modules(TRANSLATE, str(run), "threads=1", stdin="pu ma\n")
    assert {"torch", "tokenizers"} <= modules
    unneeded = {"pytorch_lightning", "lightning_fabric", "torchmetrics", "torch._dynamo", "wandb", "pandas"}
    unneeded |= {"sacremoses", "sacrebleu", "matplotlib", "datasets", "starlette", "uvicorn"}
    assert not modules & unneeded
