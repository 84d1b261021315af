"""What every test shares: shapes in the signatures of nmt/model are checked, and nothing is logged anywhere."""

import os
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
os.environ["WANDB_MODE"] = "offline"
os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side; threads that wait for each other would stall them all
install_import_hook("nmt.model", "beartype.beartype")


torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
