"""The words of references that over- and under-translation count."""

import numpy as np
import pytest

from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.over_under_translation import over_and_under_translation
from nmt.evaluation.test_set import TestSet
from nmt.evaluation.test_set_scores import score_translated_set, split_references
from nmt.evaluation.translated_set import TranslatedSet
from nmt.translate.text_translator import Translation

REFERENCE = "the cat saw rare seldom words"


def translated(words: str, unreplaced: str) -> TranslatedSet:
    translation = Translation.empty()._replace(words=words)
    return TranslatedSet([translation], [unreplaced], in_parts=0, empty=0, seconds=1.0)


@pytest.fixture
def vocabulary():
    return Vocabulary.learn([["the cat saw words"]], kind="words", size=10, minimum_count=1)


def test_unknown_words_of_references_are_unk_if_translations_keep_unk(vocabulary):
    references = split_references(vocabulary, [REFERENCE], translated("the cat <unk> <unk>", "the cat <unk> <unk>"))
    assert references == [["the", "cat", "saw", "<unk>", "<unk>", "words"]]
    rates = over_and_under_translation([["the", "cat", "<unk>", "<unk>"]], references)
    assert rates["repeated_1grams"] == 0


def test_references_keep_their_words_if_unknown_words_were_replaced(vocabulary):
    references = split_references(vocabulary, [REFERENCE], translated("the rare seldom", "the <unk> <unk>"))
    assert references == [REFERENCE.split()]


WEIGHTS = np.array([[0.8, 0.1, 0.05, 0.05], [0.9, 0.05, 0.05, 0.0], [0.85, 0.1, 0.05, 0.0]])  # x y </s> over a b c </s>


def test_attention_is_scored_over_target_steps_with_the_end_symbol_and_source_words_without_it():
    words = {"source": ["a", "b", "c", "</s>"], "target": ["x", "y", "</s>"], "words": "x y", "text": "x y"}
    one = Translation.empty()._replace(**words, alignment=WEIGHTS, has_end=Sides(True, True))
    plain = Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False)
    language = Language(plain, Vocabulary.learn([["x y"]], kind="words", size=10, minimum_count=1))
    test = TestSet("test", [SentencePair("a b c", "x y")], [["x y"]], None, 0, "text")
    set_of_one = TranslatedSet([one], ["x y"], in_parts=0, empty=0, seconds=1.0)
    scores = score_translated_set(test, set_of_one, Sides(language, language), tokenize="none", lowercase=False)
    assert scores["source_unattended"] == pytest.approx(100 / 3)  # c: 0.15; b has 0.25 with the last step
    assert scores["attention_entropy"] == pytest.approx(-sum(w * np.log(w) for w in WEIGHTS.ravel() if w) / 3)


def test_every_reference_word_counts_even_with_unknown_letters():
    vocabulary = Vocabulary.learn([["a dog a man"]], kind="bpe", size=40, minimum_count=1)
    words = ["a", "dog#", "man"]  # the unknown letter ends a word
    references = split_references(vocabulary, [" ".join(words)], translated("a dog man", "a dog man"))
    assert references == [["a", "dog<unk>", "man"]]
    rates = over_and_under_translation([["a", "dog", "man"]], references)
    assert rates["words_too_often"] == rates["words_left_out"] == pytest.approx(100 / 3)
