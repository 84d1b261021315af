"""A sweep on two Ray nodes. If Ray is in another environment, NMT_RAY_PYTHON names its Python."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT, TWELVE_STEPS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

PYTHON = os.environ.get("NMT_RAY_PYTHON", sys.executable)


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    """Start a cluster whose nodes cache prepared data in cache_0 and cache_1; yield its address."""
    imports = "import ray, hydra_plugins.hydra_ray_launcher.ray_launcher"
    if subprocess.run([PYTHON, "-c", imports], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip(f"{PYTHON} lacks ray or hydra-ray-launcher; NMT_RAY_PYTHON may name one that has them")
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # a path of pytest's is too long for a socket
        program = [PYTHON, Path(__file__).with_name("ray_nodes.py"), folder, tmp_path / "cache_0", tmp_path / "cache_1"]
        with subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        ) as nodes:  # the nodes stop when their input ends
            yield next(line.split()[1] for line in nodes.stdout if line.startswith("address"))


def test_a_ray_sweep_runs_its_jobs_on_both_nodes(tmp_path, address):
    there = (f"hydra.launcher.ray.init.address='{address}'", "+hydra.launcher.ray.init.object_store_memory=null")
    sweep = ("-m", "hydra/launcher=ray", *there, "attention=dot,general", f"hydra.sweep.dir={tmp_path}/sweep")
    done = subprocess.run(
        [PYTHON, "train.py", *sweep, *TWELVE_STEPS, "trainer.max_epochs=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = {
        path.parent.name.split(",")[0]: json.loads(path.read_text()) for path in tmp_path.glob("sweep/*/summary.json")
    }
    assert {name: (run["status"], run["steps"]) for name, run in runs.items()} == {
        "attention=dot": ("completed", 12),
        "attention=general": ("completed", 12),
    }
    assert len({run["parameters"]["total"] for run in runs.values()}) == 2
    assert all(any((tmp_path / f"cache_{node}").iterdir()) for node in (0, 1))
