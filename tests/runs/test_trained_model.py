"""Opening a trained model: checkpoints of earlier versions, and parts that do not fit together."""

import pytest
import torch
from untrained import SIZES, make_content, write_checkpoint

from nmt import load
from nmt.config.allowed_targets import check_targets
from nmt.errors import UserError
from nmt.model.initialization import Initialization
from nmt.runs.earlier_versions import ADDED, RENAMED
from nmt.runs.trained_model import TrainedRun


@pytest.fixture
def content():
    return make_content()


def make_earlier(node):
    """Return settings as the first version stored them."""
    if not isinstance(node, dict):
        return node
    earlier = {new: old for old, new in RENAMED.items()}
    lacking = ADDED.get(node.get("_target_"), {}).keys() | {"search", "matmul_precision", "candidates", "markup"}
    kept = {key: make_earlier(value) for key, value in node.items() if key not in lacking}
    return kept | ({"_target_": earlier.get(node["_target_"], node["_target_"])} if "_target_" in node else {})


SLOW = [pytest.param(decoder, marks=pytest.mark.slow) for decoder in ("bahdanau", "feedback", "luong")]


@pytest.mark.parametrize("decoder", ["conditional", *SLOW])
def test_a_checkpoint_of_an_earlier_version_opens(tmp_path, decoder):
    """Earlier versions had other class names, and neither weights, cells, a search, markup nor candidates."""
    content = make_content(f"decoder={decoder}", "attention=temporal_local")
    content["nmt"]["config"] = make_earlier(content["nmt"]["config"])
    assert "nmt.model.attention.joined.Attention" in str(content)
    run = TrainedRun(str(write_checkpoint(tmp_path / "run", content)))
    assert (run.search, run.has_candidates, run.step) == ({}, False, 7)
    assert run.languages.source.preprocessing.markup is None
    assert run.data().test == "test"
    (translation,) = load(tmp_path / "run").translate(["Gurcu pu ma ."])
    assert len(translation.words) > 0


def test_every_class_of_an_earlier_version_has_a_name_today():
    for name in RENAMED.values():
        check_targets({"_target_": name})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.score.lowercase=no", "data.score.lowercase=no: must be true or false; the default is false"),
        ("data.tests.test.count=some", "data.tests.test.count=some: must be a number; the default is 1000"),
    ],
)
def test_an_argument_of_the_data_of_another_kind_is_refused(content, tmp_path, override, message):
    run = TrainedRun(str(write_checkpoint(tmp_path / "run", content)))
    with pytest.raises(UserError, match=f"^{message}$"):
        run.data([override])


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_vocabulary_of_another_size_than_the_weights_is_refused(content, tmp_path, side):
    content["nmt"]["config"]["model"][f"{side}_vocabulary_size"] = 61
    folder = write_checkpoint(tmp_path / "run", content)
    with pytest.raises(
        UserError, match=rf"best\.ckpt: its {side} vocabulary has {SIZES[side]} entries, and its model is for 61"
    ):
        TrainedRun(str(folder))


def test_a_trained_model_draws_no_initial_values(content, tmp_path, monkeypatch):
    monkeypatch.setattr(Initialization, "_initialize", lambda *_: pytest.fail("initial values were drawn"))
    model = TrainedRun(str(write_checkpoint(tmp_path / "run", content))).model
    for name, value in model.state_dict().items():
        assert torch.equal(value, content["state_dict"][f"model.{name}"])
