"""What references are asked for, word by word."""

import pytest

from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.adequacy import over_and_under_translation
from nmt.evaluation.verb import Said, asked_for
from nmt.search.translation import Translation

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
