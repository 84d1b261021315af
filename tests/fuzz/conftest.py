"""Hypothesis profiles: few examples by default, many in slow tests, and a time limit for each input."""

import os
import pkgutil
from importlib import import_module

import pytest
from commands import TWO_STEPS, command
from hypothesis import HealthCheck, settings

import nmt

# Load all modules, because Hypothesis also tries constants of loaded modules and must not depend on test order.
for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
    import_module(module.name)

SHARED = {
    "deadline": 5000,  # milliseconds for each input
    "database": None,
    "derandomize": "HYPOTHESIS_SEED" not in os.environ,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=60, **SHARED)
settings.register_profile("thorough", max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", 500)), **SHARED)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Train a run and return its folder, which tests only read."""
    folder = tmp_path_factory.mktemp("fuzzed") / "run"
    command("train", *TWO_STEPS, f"hydra.run.dir={folder}")
    return folder
