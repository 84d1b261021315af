"""A run's folder with a model that was not trained, and the same model as a folder to share."""

import json
import shutil

import pytest
from untrained import STEP, make_content, write_checkpoint

from nmt.share.export import export_model

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0"
SCORES = {
    "scores": {"bleu": {"score": 12.345, "signature": SIGNATURE}, "chrf": {"score": 45.678, "signature": "c"}},
    "members": [{"run": "/home/somebody/run", "checkpoint": "best.ckpt", "step": STEP}],
    "search": {"beam": 12, "length_penalty": 0.0},
    "sentences": 1000,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of attention=coverage with tied embeddings on the toy language, and scores of a test set."""
    content = make_content("attention=coverage", "model.tie_embeddings=output")
    folder = write_checkpoint(tmp_path_factory.mktemp("shared") / "run", content)
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text("[attention=coverage, seed=3]")
    (folder / "test").mkdir()
    (folder / "test" / "scores.json").write_text(json.dumps(SCORES))
    return folder


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """The run as a folder to share, which tests only read."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_model(str(run), folder)
    return folder


@pytest.fixture
def copy(exported, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(exported, tmp_path / "copy")
