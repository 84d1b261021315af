"""The report of a prepared corpus: a line for data that is surely wrong, and none for other data."""

from pathlib import Path

import pytest
from compositions import configured
from hydra.utils import instantiate

from nmt.data.corpus_cache import prepare
from nmt.data.corpus_report import report_corpus
from nmt.data.parallel_text import Pairs, SentencePair, Sides
from nmt.data.preprocessing import Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError

WORDS = {"kind": "words", "size": 1000, "minimum_count": 1, "joint": False}
TRAIN = [(f"the man {n % 7} sees a dog", f"der mann {n % 7} sieht einen hund") for n in range(100)]
VALID = [("a man sees the man", "einen mann sieht der mann")]


class Listed(Pairs):
    """Sentence pairs of a list."""

    def __init__(self, pairs: list[tuple[str, str]]):
        self.pairs = pairs

    def __iter__(self):
        return (SentencePair(*pair) for pair in self.pairs)

    def identity(self):
        return self.pairs


def swap(pairs):
    return [(target, source) for source, target in pairs]


def report(folder: Path, caplog, *, train=TRAIN, valid=VALID, languages=("en", "de"), given=None, **vocabulary):
    """Return the warnings about a corpus; its tests are `news`, which is VALID, and `other`, which is swapped."""
    sides = Sides(
        *(Preprocessing(language=code, normalize=False, tokenizer="none", lowercase=False) for code in languages)
    )
    tests = {"news": Listed(VALID), "other": Listed(swap(VALID))} if vocabulary.pop("tests", False) else {}
    settings = {"preprocessing": sides, "vocabulary": WORDS | vocabulary, "given": given}
    corpus = prepare(folder, train=Listed(train), valid=Listed(valid), tests=tests, **settings)
    report_corpus(corpus.folder)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_good_data_give_no_warning(tmp_path, caplog):
    assert report(tmp_path, caplog) == []


def test_one_text_on_both_sides_is_an_error_between_two_languages_and_else_a_warning(tmp_path, caplog):
    copies = [(source, source.replace("the", "The")) for source, _ in TRAIN[:99]] + TRAIN[:1]
    message = "data.train: 99 of 100 pairs have the same text as source and target"
    with pytest.raises(DataError, match=rf"{message}\. Fix: name the file with the translations"):
        report(tmp_path, caplog, train=copies)
    assert report(tmp_path, caplog, train=copies, valid=[copies[0][:1] * 2], languages=("en", "en"))[:1] == [
        f"{message}, so the model learns to copy"
    ]
    half = [(source, source) for source, _ in TRAIN[:50]] + TRAIN[:50]
    assert "same text" not in str(report(tmp_path / "half", caplog, train=half)[1:])


def test_swapped_sides_are_an_error_for_the_validation_set_and_a_warning_for_a_test_set(tmp_path, caplog):
    message = r"data\.valid: source and target are swapped, compared with data\.train\. Fix: swap the files of one"
    for settings in ({}, {"joint": True}, {"kind": "bpe", "size": 60}):
        with pytest.raises(DataError, match=message):
            report(tmp_path, caplog, valid=swap(VALID), **settings)
    assert report(tmp_path, caplog, tests=True) == [
        "data.tests.other: source and target are swapped, compared with data.train. Fix: swap its files"
    ]


def test_unknown_words_of_a_validation_set_in_another_language_are_a_warning(tmp_path, caplog):
    french = [("the man", "un chien voit le homme"), ("a dog", "un hund")]
    assert report(tmp_path, caplog, valid=french) == [
        "data.valid: 86 % of the target words are unknown, and of the training text 0 %. "
        "Fix: name a text in data.valid of the language of data.train"
    ]


def test_unknown_words_of_the_training_text_are_a_warning_and_an_error_if_nearly_all_are(tmp_path, caplog):
    names = [(f"a{n} b{n} c{n}", "der mann") for n in range(50)]
    fix = "Fix: lower data.vocabulary.minimum_count=2, or raise data.vocabulary.size"
    some = [(f"{source} the", target) for source, target in names]
    assert report(tmp_path, caplog, train=some, valid=[("the", "mann")], minimum_count=2) == [
        f"data.train: 75 % of the source words are unknown. {fix}"
    ]
    with pytest.raises(DataError, match=f"data.train: 100 % of the source words .*, so nothing can be learned. {fix}"):
        report(tmp_path, caplog, train=names, valid=[("the", "mann")], minimum_count=2)


def test_vocabularies_of_a_run_in_other_languages_are_an_error_that_names_their_key(tmp_path, caplog):
    given = [Vocabulary.learn([[text]], kind="words", size=50, minimum_count=1) for text in ("le", "der mann sieht")]
    with pytest.raises(DataError, match=r"100 % of the source words .* \(data\.vocabulary\.run\)$"):
        report(tmp_path, caplog, given=given)


def test_a_vocabulary_that_the_text_cannot_teach_is_a_warning_with_a_smaller_size(tmp_path, caplog):
    train = [(f"the {n} man", f"der {n} mann") for n in range(60)]
    assert report(tmp_path, caplog, train=train, joint=True) == report(tmp_path, caplog, train=train, size=14) == []
    assert report(tmp_path, caplog, train=train) == [
        f"data.vocabulary.size=1000: the {side} vocabulary has 62 entries, which occur 2.9 times on average in the "
        "training text, too rarely to be learned. Fix: data.vocabulary.kind=bpe data.vocabulary.size=13"
        for side in ("source", "target")
    ]


def test_a_validation_set_that_is_in_the_training_text_is_a_warning(tmp_path, caplog):
    assert report(tmp_path, caplog, valid=TRAIN[:3] + VALID) == [
        "valid: of 4 sentences, the training text contains 3 sources, 3 targets and 3 pairs, so its scores do not show "
        "how new text is translated. Fix: choose other text"
    ]
    caplog.clear()
    assert report(tmp_path, caplog, valid=TRAIN[:1] + VALID) == [
        "valid: of 2 sentences, the training text contains 1 sources, 1 targets and 1 pairs"
    ]


def test_the_generated_language_gives_no_warning(tmp_path, caplog):
    config = configured("data=toy", "data.train.count=1000", "data.valid.count=200", f"data.cache={tmp_path}")
    instantiate(config.data).prepare()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []
