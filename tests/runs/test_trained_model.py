"""Opening a trained model: checkpoints of earlier versions, and parts that do not fit together."""

import pytest
from untrained import SIZES, make_content, write_checkpoint

from nmt import load
from nmt.errors import UserError
from nmt.runs.trained_model import TrainedRun


@pytest.fixture
def content():
    return make_content()


def test_a_checkpoint_of_an_earlier_version_opens(content, tmp_path):
    """Earlier versions stored neither a search, nor markup, nor a kind of matrix products, nor candidates."""
    config = content["nmt"]["config"]
    for section, key in ((config, "search"), (config, "matmul_precision"), (config["data"], "candidates")):
        del section[key]
    for side in ("source", "target"):
        del config["data"][side]["markup"]
    folder = write_checkpoint(tmp_path / "run", content)
    run = TrainedRun(str(folder))
    assert (run.search, run.has_candidates, run.step) == ({}, False, 7)
    assert run.languages.source.preprocessing.markup is None
    assert run.data().test == "test"
    (translation,) = load(folder).translate(["Gurcu pu ma ."])
    assert len(translation.words) > 0


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_vocabulary_of_another_size_than_the_weights_is_refused(content, tmp_path, side):
    content["nmt"]["config"]["model"][f"{side}_vocabulary_size"] = 61
    folder = write_checkpoint(tmp_path / "run", content)
    with pytest.raises(
        UserError, match=rf"best\.ckpt: its {side} vocabulary has {SIZES[side]} entries, and its model is for 61"
    ):
        TrainedRun(str(folder))
