"""Where translations are written: never over what is read, and in a folder that is made where there is none."""

import io
import os

import pytest
from omegaconf import OmegaConf

from nmt.cli.translate import _written, translate
from nmt.config.schema import defaults_of
from nmt.errors import ConfigurationError


def refused(**keys) -> None:
    translate(OmegaConf.merge(defaults_of("translate"), keys), io.BytesIO(), io.StringIO())


@pytest.mark.parametrize("key", ["input", "prefixes"])
@pytest.mark.parametrize("name", ["text", "link", "other"])
def test_what_is_read_is_not_written_over(tmp_path, key, name):
    """Under another name it is the same file; and other.part is where other is drafted."""
    read = tmp_path / ("other.part" if name == "other" else "text")
    read.write_text("ma pu\n")
    if name == "link":
        os.symlink(read, tmp_path / "link")
    with pytest.raises(ConfigurationError, match=f"output={tmp_path}/{name}: would be written over {key}={read}"):
        refused(output=str(tmp_path / name), **{key: str(read)})
    assert read.read_text() == "ma pu\n"


@pytest.mark.parametrize("place", ["folder", "pipe"])
def test_what_is_no_file_is_not_replaced_by_one(tmp_path, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=f"output={tmp_path}/{place}: is there, and no file"):
        refused(output=str(tmp_path / place))


def test_a_folder_that_is_not_there_is_made(tmp_path):
    with _written(tmp_path / "new" / "folder" / "out") as stream:
        stream.write("ma\n")
    assert (tmp_path / "new" / "folder" / "out").read_text() == "ma\n"
