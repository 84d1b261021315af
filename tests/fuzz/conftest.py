"""How much is tried: little in the default suite, much in the tests marked slow; no input may take long."""

import os
import pkgutil
from importlib import import_module

import pytest
from commands import TWO_STEPS, command
from hypothesis import HealthCheck, settings

import nmt

# Hypothesis also tries constants of the modules that are loaded: all are, or what it tries depends on who ran before.
for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
    import_module(module.name)

SHARED = {
    "deadline": 5000,  # milliseconds an input
    "database": None,
    "derandomize": "HYPOTHESIS_SEED" not in os.environ,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=60, **SHARED)
settings.register_profile("thorough", max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", 1500)), **SHARED)
settings.load_profile("quick")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run's folder, evaluated; nobody changes it."""
    folder = tmp_path_factory.mktemp("fuzzed") / "run"
    command("train", *TWO_STEPS, f"hydra.run.dir={folder}")
    return folder
