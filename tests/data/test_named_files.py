"""A run from somebody else names only files that the user has named too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from commands import ROOT, answer
from compositions import configured
from hydra.utils import instantiate

from nmt.data import named_files
from nmt.data.huggingface import HubPairs
from nmt.data.named_files import Permission, remember
from nmt.errors import ConfigurationError, UserError
from nmt.runs.stored_overrides import repeat_run

FIX = "trust=true"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder in which nothing was named before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NMT_DATA", raising=False)
    monkeypatch.setattr(named_files, "named_here", set())
    return tmp_path


def refuses(place, typed=(), run="foreign"):
    try:
        Permission(run, dict(typed), FIX).check("tests.test", [place])
    except ConfigurationError as error:
        assert str(error).startswith(f"data.tests.test: {run} names {place}, which no command here has named")
        return True
    return False


@pytest.mark.parametrize(
    "place",
    [
        *map(Path, ("/etc/shadow", "secret", "../data/a", "data/../secret", "database/a")),
        *("https://example.org/a.json", "OWNER/NAME", "data/a.json"),
    ],
)
def test_a_place_that_was_never_named_is_refused(place, folder):
    assert refuses(place)
    assert not refuses(place, {"data.tests.test.source": str(place)})
    remember([place])
    assert not refuses(place)


def test_files_in_the_folder_of_data_sets_need_no_confirmation(folder, monkeypatch):
    assert not refuses(Path("data/corpus/test.en"))
    assert not refuses(folder / "data" / "test.en")
    monkeypatch.setenv("NMT_DATA", "/corpora")
    assert not refuses(Path("/corpora/test.en"))
    assert refuses(Path("data/test.en"))
    assert not refuses(Path("data/test.en"), {"data.dir": "data"})


def test_the_data_folder_of_a_strangers_run_and_links_out_of_a_data_folder_need_confirmation(folder, monkeypatch):
    (folder / "data").mkdir()
    (folder / "data" / "link").symlink_to("/etc")
    assert refuses(Path("data/link/shadow"))
    (folder / "foreign").mkdir()
    monkeypatch.chdir(folder / "foreign")
    (folder / "foreign" / "data").symlink_to("/etc")
    assert refuses(Path("data/shadow"), run=".")
    (folder / "foreign" / "data").unlink()
    assert refuses(Path("data/test.en"), run=".")
    assert not refuses(Path("data/test.en"), run="runs")


def test_a_place_stays_named_for_later_processes_or_for_this_one_alone(folder, monkeypatch, caplog):
    remember([Path("a")])
    monkeypatch.setattr(named_files, "named_here", set())
    assert not refuses(folder / "a")
    assert not caplog.records
    (folder / "file").touch()
    monkeypatch.setenv("NMT_CACHE", str(folder / "file"))  # no folder can be made there
    remember([Path("b")])
    assert not refuses(Path("b"))
    assert f"{folder}/file: cannot be written (File exists), so later commands may refuse the files" in caplog.text


REMEMBER = """
import os, sys
from pathlib import Path
from nmt.data.named_files import named_here, is_named, remember
for user in map(int, sys.argv[1:]):
    if (child := os.fork()) == 0:
        os.setuid(user)
        was_named = is_named(Path("/a"))
        remember([Path("/a")])
        named_here.clear()
        os._exit((was_named, is_named(Path("/a"))) != (False, True))
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can act as other users")
def test_users_of_one_cache_name_places_each_for_themselves(folder, monkeypatch):
    with TemporaryDirectory() as shared:  # because tmp_path is closed to other users
        os.chmod(shared, 0o1777)
        monkeypatch.setenv("NMT_CACHE", shared)
        assert subprocess.run([sys.executable, "-c", REMEMBER, "12345", "12346"], cwd=ROOT).returncode == 0
        assert [path.stat().st_mode & 0o777 for path in Path(shared).iterdir()] == [0o700, 0o700]


def test_data_sets_of_the_hub_and_their_files_are_places():
    def places(path, files=None):
        return HubPairs("train", path=path, data_files=files, source="en", target="de").places()

    assert places("OWNER/NAME") == ["OWNER/NAME"]
    assert places("/a/folder", {"train": "https://x/y", "test": ["a", "b"]}) == ["/a/folder", "https://x/y", "a", "b"]
    assert places("parquet", "/etc/*") == ["/etc/*"]
    assert places("sql", "a") == ["sql", "a"]


def test_pickles_of_pandas_are_refused():
    with pytest.raises(ConfigurationError, match=r"data.reader.path=pandas: refused, because a pickle can run any"):
        HubPairs("train", path="pandas", data_files="x.pkl", source="en", target="de")


def test_an_empty_data_folder_makes_no_file_of_the_working_directory_a_data_set(folder, monkeypatch):
    monkeypatch.setenv("NMT_DATA", "")
    monkeypatch.chdir(folder)
    (folder / "private.en").touch()
    with pytest.raises(ConfigurationError, match="which no command here has named before"):
        Permission("own", {}, FIX).check("train", [folder / "private.en"])


def write_corpus(folder):
    for name in ("train", "valid", "test"):
        for side in ("en", "de"):
            (folder / f"{name}.{side}").write_text(f"one two {side}\nthree four {side}\n")
    files = [f"data.{split}.{side}={folder}/{split}.{end}" for split in ("train", "valid") for side, end in SIDES]
    tests = [f"+data.tests.mine.{side}={folder}/test.{end}" for side, end in SIDES]
    return [*files, *tests, "data.test=mine"]


SIDES = (("source", "en"), ("target", "de"))


def test_files_of_a_training_are_named_for_its_evaluation(folder):
    instantiate(configured("data=text", *write_corpus(folder)).data).prepare()
    data = instantiate(configured("data=text", *write_corpus(folder)).data)
    data.permission = Permission("own", {}, FIX)
    assert len(list(data.test_pairs()[1])) == 2
    (folder / "other.en").touch()
    data.tests = {"mine": {}}
    data.files["tests.mine"] = {"source": str(folder / "other.en"), "target": str(folder / "test.de")}
    with pytest.raises(ConfigurationError, match=r"data.tests.mine: own names .*other.en, which no command here"):
        data.test_pairs()


@pytest.mark.slow
@pytest.mark.parametrize("typed", [False, True])
def test_repeating_a_run_reads_no_file_that_was_not_named(folder, typed, capsys, monkeypatch):
    secret = folder / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_text("password\n")
    run = folder / "foreign"
    (run / ".hydra").mkdir(parents=True)
    files = [f"data.{split}.{side}={secret}" for split in ("train", "valid") for side, _ in SIDES]
    (run / ".hydra" / "overrides.yaml").write_text(json.dumps(["data=text", "logger=none", *files]))
    arguments = (f"run={run}", "size=tiny", "trainer=cpu", "debug=steps", *(files if typed else ()))
    status, stderr = answer("train", *arguments, f"hydra.run.dir={folder}/new", capture=capsys, monkeypatch=monkeypatch)
    refusal = f"data.train: {run} names {secret}, which no command here has named before. Fix: type the file yourself"
    assert (refusal in stderr) is not typed
    assert (status == 0) is typed
    assert any((folder / "cache").glob("*/*.words")) is typed


def test_a_stage_of_a_repeated_run_reads_no_file_that_was_not_named(folder):
    (folder / ".hydra").mkdir()
    override = "pretraining={overrides: ['data.train.source=/etc/shadow']}"
    (folder / ".hydra" / "overrides.yaml").write_text(json.dumps([override]))
    with pytest.raises(UserError, match="refused to repeat pretraining="):
        repeat_run([f"run={folder}"])
    remember([Path("/etc/shadow")])
    assert repeat_run([f"run={folder}"])[0] == override
