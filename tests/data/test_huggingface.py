"""Data sets of the Hugging Face hub, from local files."""

import importlib.util
import json

import pyarrow
import pyarrow.parquet
import pytest
from compositions import configured
from hydra.utils import instantiate

from nmt.data.huggingface import HubPairs
from nmt.errors import ConfigurationError, DataError

ROWS = [{"en": "a man", "de": "ein Mann"}, {"en": "two\nmen", "de": "zwei Männer"}, {"en": "", "de": ""}]


@pytest.fixture(autouse=True)
def _empty_hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "hub")


def parquet_file(folder):
    path = folder / "train.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"translation": ROWS}), path)
    return {"path": "parquet", "data_files": {"train": str(path)}}


def json_file(folder):
    path = folder / "train.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return {"path": "json", "data_files": {"train": str(path)}, "column": None}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("written", [parquet_file, json_file])
def test_local_files_are_read_mapped_and_streamed(tmp_path, written, streaming):
    pairs = HubPairs("train", source="en", target="de", streaming=streaming, **written(tmp_path))
    assert [tuple(line) for line in pairs] == [("a man", "ein Mann"), ("two men", "zwei Männer")]
    assert pairs.blank == 1


def test_identity_follows_the_content_of_the_files(tmp_path):
    settings = json_file(tmp_path)
    before = HubPairs("train", source="en", target="de", **settings).identity()
    with open(settings["data_files"]["train"], "a") as stream:
        stream.write('{"en": "x", "de": "y"}\n')
    assert HubPairs("train", source="en", target="de", **settings).identity() != before


def test_identity_of_files_pattern_and_folder_follows_their_content(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.json").write_text('{"en": "a man", "de": "ein Mann"}\n')
    several = [str(folder / "a.json"), str(folder / "b.json")]
    named = {"several": {"train": several}, "pattern": {"train": str(folder / "*.json")}, "folder": None}

    def pairs_of(kind: str) -> HubPairs:
        path = "json" if named[kind] else str(folder)
        return HubPairs("train", path=path, data_files=named[kind], column=None, source="en", target="de")

    before = {kind: pairs_of(kind).identity() for kind in named}
    assert [len(list(pairs_of(kind))) for kind in named] == [2, 2, 2]
    (folder / "b.json").write_text('{"en": "two men", "de": "zwei Männer"}\n')
    assert not [kind for kind in named if pairs_of(kind).identity() == before[kind]]


@pytest.mark.parametrize("data_files", [None, {}, {"train": []}, []])
def test_a_format_without_files_is_refused(data_files):
    with pytest.raises(ConfigurationError, match=r"data_files must be given with data\.reader\.path=csv"):
        HubPairs("train", path="csv", data_files=data_files, source="en", target="de")


def test_a_part_of_a_split_of_local_files_can_be_read(tmp_path):
    (tmp_path / "t.json").write_text("".join(f'{{"en": "e{number}", "de": "d{number}"}}\n' for number in range(10)))
    files = {"data_files": {"train": str(tmp_path / "t.json")}, "column": None, "source": "en", "target": "de"}
    pairs = HubPairs("train[80%:]", path="json", **files)
    assert pairs.identity() != HubPairs("train", path="json", **files).identity()
    assert [pair.source for pair in pairs] == ["e8", "e9"]


def test_data_files_are_relative_to_the_named_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "pairs"
    folder.mkdir()
    for place, line in ((folder, '{"en": "a", "de": "b"}'), (tmp_path, '{"en": "other folder", "de": "c"}')):
        (place / "t.json").write_text(f"{line}\n")
    pairs = HubPairs("train", path="pairs", data_files="t.json", column=None, source="en", target="de")
    assert [tuple(line) for line in pairs] == [("a", "b")]
    before = pairs.identity()
    (tmp_path / "t.json").unlink()
    assert pairs.identity() == before
    (folder / "t.json").write_text('{"en": "c", "de": "d"}\n')
    assert pairs.identity() != before
    on_the_hub = [
        HubPairs("train", path="owner/pairs", data_files=file, source="en", target="de").identity()
        for file in ("t.json", "u.json")
    ]
    assert on_the_hub[0] != on_the_hub[1]


@pytest.mark.parametrize("streaming", [False, True])
def test_test_set_without_references_does_not_stop_training(tmp_path, streaming):
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split in ("train", "validation"):
        pyarrow.parquet.write_table(pyarrow.table({"translation": ROWS}), folder / f"{split}.parquet")
    hidden = pyarrow.table({"translation": pyarrow.array([None], pyarrow.struct({"en": "string", "de": "string"}))})
    pyarrow.parquet.write_table(hidden, folder / "test.parquet")
    chosen = ("data.source.language=en", "data.target.language=de", f"data.reader.streaming={streaming}")
    config = configured("data=hub", f"data.reader.path={folder}", *chosen, f"data.cache={tmp_path}/cache")
    about = instantiate(config.data).prepare().about
    assert about["train"]["pairs"] == 2
    assert "split test, row 1: no 'en' in column translation" in about["unread_tests"]["test"]


def test_error_names_a_wrong_column_and_the_existing_ones(tmp_path):
    with pytest.raises(ConfigurationError, match="row 1: no 'fr' in column translation, only en, de"):
        list(HubPairs("train", source="en", target="fr", **parquet_file(tmp_path)))


def test_error_names_a_data_set_that_cannot_be_loaded(tmp_path):
    broken = tmp_path / "x.parquet"
    broken.write_text("not parquet")
    with pytest.raises(DataError, match=r"data\.reader\.path=parquet, split train: cannot be read"):
        list(HubPairs("train", path="parquet", data_files={"train": str(broken)}, source="en", target="de"))
    with pytest.raises(ConfigurationError, match=r"data\.reader\.path must be given"):
        HubPairs("train", path=None, source="en", target="de")


def test_missing_test_split_gives_a_warning_and_does_not_stop_training(tmp_path, caplog):
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split in ("train", "validation"):
        pyarrow.parquet.write_table(pyarrow.table({"translation": ROWS}), folder / f"{split}.parquet")
    languages = ("data.source.language=en", "data.target.language=de")
    config = configured("data=hub", f"data.reader.path={folder}", *languages, f"data.cache={tmp_path}/cache")
    data = instantiate(config.data)
    assert data.prepare().about["train"]["pairs"] == 2
    assert "test: cannot be read, so leaks into the training text were not checked" in caplog.text
    assert "valid: of 2 sentences, the training text contains 2 sources, 2 targets and 2 pairs" in caplog.text
    with pytest.raises(DataError, match="split test: cannot be read"):
        list(data.test_pairs()[1])


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigurationError, match=r"data=hub: needs datasets \(extra: hub\)\. Fix: pip install datasets"
    ):
        list(HubPairs("train", path="owner/name", source="en", target="de"))
