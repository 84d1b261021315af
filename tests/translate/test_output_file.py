"""The output file: it never overwrites an input file, and its folder is created."""

import io
import os

import pytest
from omegaconf import OmegaConf

from nmt.cli.translate import translate
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError
from nmt.translate.output_file import open_output


def run(**keys) -> None:
    translate(OmegaConf.merge(load_defaults("translate"), keys), io.BytesIO(), io.StringIO())


@pytest.mark.parametrize("key", ["input", "prefixes"])
@pytest.mark.parametrize("name", ["text", "link"])
def test_an_input_file_is_not_overwritten(tmp_path, key, name):
    """`link` is the same file under another name."""
    read = tmp_path / "text"
    read.write_text("ma pu\n")
    if name == "link":
        os.symlink(read, tmp_path / "link")
    with pytest.raises(ConfigurationError, match=f"output={tmp_path}/{name}: would overwrite {key}={read}"):
        run(output=str(tmp_path / name), **{key: str(read)})
    assert read.read_text() == "ma pu\n"


@pytest.mark.parametrize("place", ["folder", "pipe"])
def test_a_path_that_is_no_regular_file_is_not_replaced(tmp_path, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=f"output={tmp_path}/{place}: exists and is no regular file"):
        run(output=str(tmp_path / place))


def test_a_missing_folder_is_created(tmp_path):
    with open_output(tmp_path / "new" / "folder" / "out") as stream:
        stream.write("ma\n")
    assert (tmp_path / "new" / "folder" / "out").read_text() == "ma\n"


def test_two_processes_with_one_output_each_write_a_complete_file(tmp_path):
    """The last one to end replaces the file of the other. In containers both may have the number 1."""
    with open_output(tmp_path / "out") as first:
        first.write("first\n")
        with open_output(tmp_path / "out") as second:
            second.write("second\n")
        assert (tmp_path / "out").read_text() == "second\n"
        first.write("first\n")
    assert (tmp_path / "out").read_text() == "first\nfirst\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
