"""Test sets: refused settings, and hints for missing files."""

import pytest

from nmt.errors import ConfigurationError, NoFileError
from nmt.evaluation.test_set import check_data_overrides, hint_at_folder


@pytest.mark.parametrize(
    "override", ["data.batches.size=7", "data.max_length=3", "data.cache=x", "data.source.tokenizer=none", "data.tes=x"]
)
def test_data_overrides_without_an_effect_are_refused(override):
    with pytest.raises(ConfigurationError, match=f"{override}: has no effect on an evaluation"):
        check_data_overrides(["data.test=test", override])


@pytest.mark.parametrize(("path", "has_hint"), [("data/test.en", True), ("/data/test.en", False)])
def test_missing_relative_path_is_explained_with_the_current_folder(tmp_path, monkeypatch, path, has_hint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoFileError) as error, hint_at_folder():
        raise NoFileError(path, "get it there")
    assert str(error.value).startswith(f"{path}: no such file (get it there")
    assert (f"this folder is {tmp_path}. Fix: change to" in str(error.value)) == has_hint
