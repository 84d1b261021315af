"""Shared test set-up: shape checks for the signatures of nmt/model, offline logging, and a browser."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

ROOT = Path(__file__).parent.parent
# Folders and files whose tests start programs, try many combinations, or compose and train many models
SLOW = ("end_to_end", "cluster", "fuzz", "benchmarks", "web", "reference")
SLOW += ("model/test_every_composition.py", "model/test_mechanisms.py", "share/test_hub.py")
SLOW += ("studies/test_archive.py", "studies/test_results.py", "system/test_freed_memory.py")
SLOW += ("cli/test_align_command.py", "cli/test_exit_status.py", "cli/test_new_folder.py", "config/test_first_job.py")
SLOW += ("data/test_lexical_table.py", "data/test_moses_internals.py", "data/test_toy_language.py")
SLOW += ("evaluation/test_aligned_data.py", "training/test_resume_exactly.py", "translate/test_int8.py")
SLOW += ("model/test_construction.py", "share/test_export.py", "report/test_compare.py")
SLOW += ("data/test_corpus_cache.py", "data/test_huggingface.py")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
os.environ["WANDB_MODE"] = "offline"
os.environ["OMP_NUM_THREADS"] = "1"  # because tests run in parallel and would compete for cores
install_import_hook("nmt.model", "beartype.beartype")


torch.set_num_threads(1)


def pytest_xdist_auto_num_workers(config):
    """Return the cores that this process may use, and one more with slow tests, because some of these wait."""
    from nmt.system.hardware import available_cores

    return available_cores() + (config.option.markexpr != "not slow")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave the tests of SLOW to `make test-all`, so that `make test` takes three minutes."""
    for item in items:
        if item.path.relative_to(ROOT / "tests").as_posix().startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"needs a browser: install one of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def forgotten_users_folder(monkeypatch):
    """Forget the documented user_dir after a test."""
    from nmt.config.user_dir import user_folders

    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    user_folders.clear()
    sys.modules.pop("my_parts", None)
