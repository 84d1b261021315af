"""evaluate.py: what it refuses before it searches, what it says, and what references are asked for, word by word."""

import errno
import logging
from types import SimpleNamespace

import pytest
from commands import answer
from omegaconf import OmegaConf

from evaluate import show_by_frequency
from nmt.config.schema import defaults_of
from nmt.data.parallel_text import Line
from nmt.data.vocabulary import Vocabulary
from nmt.errors import ConfigurationError, NoFileError
from nmt.evaluation import test_set as module
from nmt.evaluation.by_frequency import by_frequency
from nmt.evaluation.over_under_translation import over_and_under_translation
from nmt.evaluation.test_set import Said, asked_for, evaluate, evaluate_run
from nmt.translate.text_translator import Translation

REFERENCE = "the cat saw rare seldom words"


def said(words: str, unreplaced: str) -> Said:
    translation = Translation.of_nothing()._replace(words=words)
    return Said([translation], [unreplaced], in_parts=0, empty=0, seconds=1.0)


@pytest.fixture
def vocabulary():
    return Vocabulary.learn([["the cat saw words"]], kind="words", size=10, minimum_count=1)


def test_unknown_words_are_asked_for_as_such_where_translations_have_them(vocabulary):
    wanted = asked_for(vocabulary, [REFERENCE], said("the cat <unk> <unk>", "the cat <unk> <unk>"))
    assert wanted == [["the", "cat", "saw", "<unk>", "<unk>", "words"]]
    assert over_and_under_translation([["the", "cat", "<unk>", "<unk>"]], wanted)["repeated_1grams"] == 0


def test_unknown_words_that_were_replaced_are_looked_for_as_they_are(vocabulary):
    wanted = asked_for(vocabulary, [REFERENCE], said("the rare seldom", "the <unk> <unk>"))
    assert wanted == [REFERENCE.split()]


def test_of_a_reference_whose_letters_are_unknown_every_word_is_asked_for():
    vocabulary = Vocabulary.learn([["a dog a man"]], kind="bpe", size=40, minimum_count=1)
    words = ["a", "dog#", "man"]  # the unknown letter ends a word
    wanted = asked_for(vocabulary, [" ".join(words)], said("a dog man", "a dog man"))
    assert wanted == [["a", "dog<unk>", "man"]]
    counts = over_and_under_translation([["a", "dog", "man"]], wanted)
    assert counts["words_too_often"] == counts["words_left_out"] == pytest.approx(100 / 3)


@pytest.fixture
def unsearched(tmp_path, monkeypatch):
    """Settings of an evaluation that fails where it searches."""
    data = SimpleNamespace(score={"tokenize": "13a", "lowercase": False})
    run = SimpleNamespace(folder=tmp_path / "run", data=lambda told: data)
    monkeypatch.setattr(module, "opened", lambda settings: ([run], None))
    monkeypatch.setattr(module, "test_set", lambda data: module.TestSet("test", [], [[]], None, 0))
    monkeypatch.setattr(module, "_translated", lambda *_: pytest.fail("has searched"))
    return OmegaConf.merge(defaults_of("evaluate"), {"run": str(run.folder)})


@pytest.mark.parametrize("output", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_told_before_the_search(unsearched, tmp_path, output):
    (tmp_path / "file").touch()
    unsearched.output = str(tmp_path / output)
    with pytest.raises(ConfigurationError, match=f"{output}/test: cannot be written .*; output=FOLDER lays"):
        evaluate(unsearched, [])


@pytest.mark.parametrize(
    "override", ["data.batches.size=7", "data.max_length=3", "data.cache=x", "data.source.tokenizer=none", "data.tes=x"]
)
def test_settings_of_the_data_without_an_effect_are_refused(unsearched, override):
    with pytest.raises(ConfigurationError, match=f"{override}: has no effect on an evaluation"):
        evaluate(unsearched, ["data.test=test", override])


def test_how_scores_are_counted_is_checked_before_the_search(unsearched, monkeypatch):
    run = SimpleNamespace(data=lambda told: SimpleNamespace(score={"tokenize": "13b", "lowercase": False}))
    monkeypatch.setattr(module, "opened", lambda settings: ([run], None))
    with pytest.raises(ConfigurationError, match="tokenize=13b: choose none, zh, 13a"):
        evaluate(unsearched, [])


@pytest.mark.parametrize("given", ["rescore=[a,b] score=[a,b]", "links=a gold=b reference=c"])
def test_what_is_to_be_scored_is_said_once(given, capfd, monkeypatch):
    status, told = answer("evaluate", *given.split(), capture=capfd, monkeypatch=monkeypatch)
    assert (status, "each says what is to be scored; leave all but one out" in told) == (1, True)


def test_what_scores_no_test_set_refuses_settings_of_the_data(capfd, monkeypatch):
    status, told = answer("evaluate", "links=a", "gold=b", "data.test=x", capture=capfd, monkeypatch=monkeypatch)
    assert (status, told.startswith("error: data.test=x: links= scores what it names, and no test set")) == (1, True)


@pytest.mark.parametrize(("path", "is_told"), [("data/test.en", True), ("/data/test.en", False)])
def test_a_path_of_the_run_that_is_none_from_here_says_from_where(unsearched, tmp_path, monkeypatch, path, is_told):
    def absent(data):
        raise NoFileError(path, "get it there")

    monkeypatch.setattr(module, "test_set", absent)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoFileError) as error:
        evaluate(unsearched, [])
    assert str(error.value).startswith(f"{path}: no such file (get it there")
    assert (f"looked for in {tmp_path}: go to where" in str(error.value)) == is_told


def test_a_run_that_is_scored_after_training_says_how_good_it_is_and_where(monkeypatch, caplog):
    scores = {"bleu": {"score": 39.027}, "chrf": {"score": 61.5}}
    told = []

    def evaluated(settings, of_data):
        told.append((settings.run, settings.unknown, of_data))
        return {"run": "a/run", "test": "test_2016", "scores": scores}

    monkeypatch.setattr(module, "evaluate", evaluated)
    with caplog.at_level(logging.INFO):
        evaluate_run("a/run", "keep", "test_2016")
    evaluate_run("a/run", "copy", None)
    assert told == [("a/run", "keep", ["data.test=test_2016"]), ("a/run", "copy", [])]
    assert caplog.messages[:1] == ["test_2016: bleu 39.03, chrf 61.50, in a/run/test_2016/"]


def test_words_by_their_frequency_are_shown_as_a_table(capsys):
    found = by_frequency([["a", "b", "b"]], [["a", "b", "c", "c"]], {"a": 7, "b": 7})
    show_by_frequency([bucket._asdict() for bucket in found])
    heads, unknown, known = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads[-4:] == ["references", "precision", "recall", "F1"]
    assert (unknown, known) == (["0", "2", "0.00", "0.00", "0.00"], ["6–10", "2", "66.67", "100.00", "80.00"])


def test_results_are_all_of_one_evaluation_or_those_of_the_one_before(tmp_path, monkeypatch):
    test = module.TestSet("test", [Line("a", "b")], [["b"]], None, 0)
    said = Said([Translation.of_nothing()], [""], 0, 1, 1.0)
    for name in ("alignment_7.png", "forced_links.txt"):  # of an evaluation with other alignments, and more pictures
        (tmp_path / name).touch()
    module._write(tmp_path, test, said, None, {"beam": 5})
    written = ["alignments.npz", "hypotheses.txt", "links.txt", "scores.json", "sentences.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == written
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path, arrays):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(module, "_write_arrays", full)
    with pytest.raises(OSError, match="No space left"):
        module._write(tmp_path, test, said._replace(translations=[said.translations[0]] * 2), None, {"beam": 1})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
