"""Embeddings that start from pretrained word vectors."""

import json

import pytest
import torch
from commands import answer, command
from compositions import composed, configured

from nmt.data.parallel_text import Sides
from nmt.data.preprocessing import Language
from nmt.data.text_files import file_identity
from nmt.data.vocabulary import KINDS, Vocabulary
from nmt.errors import ConfigurationError
from nmt.training.pretrained_vectors import check_vectors, fill_embeddings, identify_vectors

SIZE = configured().size.embedding
LINES = [["a man man manly man sees sees sees seesaws"]]


@pytest.fixture
def path(tmp_path):
    """A file with vectors of `man`, `sees` and </s>."""
    rows = {"</s>": 9.0, "man": 1.0, "cat": 8.0, "sees": 2.0}
    path = tmp_path / "some.vec"
    path.write_text("".join(f"{word} {' '.join([str(value)] * SIZE)}\n" for word, value in rows.items()))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_words_with_a_vector_get_it_and_others_keep_their_values(kind, path):
    vocabulary = Vocabulary.learn(LINES, kind=kind, size=40, minimum_count=1)
    model = composed(target_words=40)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    about = fill_embeddings({"source": None, "target": str(path)}, model, Sides(None, Language(None, vocabulary)))
    ids = {word: vocabulary.encode([word])[0].tolist() for word in ("man", "sees")}
    assert [len(pieces) for pieces in ids.values()] == [1, 1]
    after = model.state_dict()
    changed, kept = after.pop("target_embedding.weight"), before.pop("target_embedding.weight")
    assert changed[ids["man"]].unique().tolist() == [1.0]
    assert changed[ids["sees"]].unique().tolist() == [2.0]
    others = [number for number in range(40) if [number] not in ids.values()]
    assert torch.equal(changed[others], kept[others])
    assert all(torch.equal(after[name], before[name]) for name in before)
    share = round(2 / (len(vocabulary) - 4), 4)
    assert about == {"target": {"file": str(path), "digest": file_identity(path), "words": 2, "share": share}}


def test_a_file_that_does_not_fit_is_refused_before_the_data_are_prepared(path):
    def check(*overrides):
        config = configured(f"vectors.source={path}", *overrides)
        check_vectors(config.vectors, config.init_from, config.model.embedding_size)

    check()
    for overrides, message in (
        (
            ("size.embedding=5",),
            rf"vectors\.source={path}: has vectors of {SIZE} numbers, and an embedding has 5\. Fix: siz",
        ),
        (("init_from=a",), rf"vectors\.source={path}: init_from gives this embedding too\. Fix: leave one out"),
        ((f"vectors.target={path}x",), rf"vectors\.target={path}x: no such file"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            check(*overrides)


def test_a_file_without_any_word_of_the_vocabulary_is_refused(path):
    vocabulary = Vocabulary.learn([["ein Mann"]], kind="words", size=9, minimum_count=1)
    languages = Sides(Language(None, vocabulary), Language(None, vocabulary))
    with pytest.raises(ConfigurationError, match=r"some\.vec: has none of the words of the target vocabulary\. Fix: "):
        fill_embeddings({"source": None, "target": str(path)}, composed(), languages)


def test_the_identity_follows_the_content_and_a_missing_file_is_none(path):
    before = identify_vectors({"source": str(path), "target": None})
    path.write_text("other")
    after = identify_vectors({"source": str(path), "target": None})
    assert before["source"] != after["source"]
    path.unlink()
    assert identify_vectors({"source": str(path), "target": None}) == {"source": None}


@pytest.mark.slow
def test_a_run_with_vectors_is_resumed_and_translates_without_their_file(tmp_path, capfd, monkeypatch):
    words = ("pu", "ma", "nibi", ".")
    path = tmp_path / "toy.vec"
    path.write_text(f"{len(words)} {SIZE}\n" + "".join(f"{word} {' '.join(['0.5'] * SIZE)}\n" for word in words))
    settings = [
        "size=tiny",
        "logger=none",
        "data.train.count=60",
        "data.valid.count=4",
        f"hydra.run.dir={tmp_path}/run",
    ]
    settings += [f"vectors.source={path}", f"data.cache={tmp_path}/cache", "data.vocabulary.minimum_count=1"]
    status, stderr = answer("train", *settings, "trainer.max_steps=1", capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["vectors"]["source"]["digest"] == file_identity(path)
    assert 0 < summary["vectors"]["source"]["share"] < 1
    path.unlink()
    status, stderr = answer("train", *settings, "trainer.max_steps=2", capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, stderr
    resumed = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (resumed["steps"], resumed["vectors"]) == (2, summary["vectors"])
    assert command("translate", f"run={tmp_path}/run", stdin=b"Gurcu pu ma .\n").returncode == 0
