"""What the vocabulary does not know is told, word by word, as it stands in the line."""

import numpy as np
import pytest
from compositions import SOURCE_WORDS, TARGET_WORDS, composed

from nmt.data.parallel_text import Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.search.beam import Hypothesis
from nmt.search.settings import Search
from nmt.translate.long_lines import in_parts
from nmt.translate.text_translator import TextTranslator
from nmt.translate.unknown_words import UnknownWords


class NoModel:
    def to(self, device):
        return self

    def eval(self):
        return self


def test_words_of_unknown_letters_stay_apart():
    vocabulary = Vocabulary.learn([["科 学 ab"]], kind="bpe", size=30, minimum_count=1)
    language = Language(
        Preprocessing(language="zh", normalize=False, tokenizer="characters", lowercase=False), vocabulary
    )
    translator = TextTranslator(NoModel(), Sides(language, language), source_end=True)
    (source,) = vocabulary.encode(["科 学 家 ab"])
    weights = np.array([[0.1, 0.2, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]], dtype=np.float32)
    said = Hypothesis(source[:1], score=0.0, log_probability=0.0, word_scores=np.zeros(2), trace={"alignment": weights})
    spelled = translator.spell("科 学 家 ab", source, said)
    assert spelled.source == ["科", "学", "家", "ab", "</s>"]
    assert spelled.word_alignment().argmax() == 2
    np.testing.assert_allclose(spelled.alignment, weights)


def language_of(words: int) -> Language:
    """`a`, `b` and more, as many as a vocabulary of this size can have."""
    text = " ".join(["a", "b", *(f"w{number}" for number in range(words))])
    vocabulary = Vocabulary.learn([[text]], kind="words", size=words, minimum_count=1)
    return Language(Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False), vocabulary)


def translator_of_random_words(*, source_end: bool) -> TextTranslator:
    languages = Sides(language_of(SOURCE_WORDS), language_of(TARGET_WORDS))
    return TextTranslator(composed(), languages, source_end=source_end)


@pytest.mark.parametrize("source_end", [True, False])
def test_a_word_spelled_like_the_end_symbol_is_a_word_like_others(source_end):
    translator = translator_of_random_words(source_end=source_end)
    (source,), target = translator.languages.source.vocabulary.encode(["a </s> b"]), translator.languages.target
    weights = np.zeros((3, 3 + source_end), dtype=np.float32)
    weights[0, 1] = weights[1, 2] = weights[2, 0] = 1.0
    unknown = target.vocabulary.encode(["? ?"])[0]
    said = Hypothesis(unknown, score=0.0, log_probability=0.0, word_scores=np.zeros(3), trace={"alignment": weights})
    spelled = translator.spell("a </s> b", source, said)
    np.testing.assert_array_equal(spelled.word_alignment(), weights[:2, :3])
    copied = UnknownWords(target, None)(spelled)
    assert copied.words == "</s> b"
    assert copied.word_alignment().shape == (2, 3)


def test_a_word_that_a_translation_has_to_begin_with_is_kept_though_the_vocabulary_lacks_it():
    translator = translator_of_random_words(source_end=True)
    replaced = UnknownWords(translator.languages.target, None)
    (line,) = translator.lines([("a b w1", "Melfy a Fyn")], Search(beam=2))
    (found,) = map(replaced, line.translations[:1])
    assert found.target[:3] == found.words.split()[:3] == found.text.split()[:3] == ["Melfy", "a", "Fyn"]
    assert len(found.target) == len(found.alignment) == len(found.word_scores)
    (in_parts,) = translator.lines([("a b w1", "Melfy")], Search(beam=2), longest=2)
    assert in_parts.parts == 2
    assert [place for place, word in enumerate(in_parts.translations[0].target) if word == "Melfy"] == [0]


def test_words_a_translation_begins_with_are_told_apart_by_pieces_too():
    vocabulary = Vocabulary.learn([["ab ab abc"]], kind="bpe", size=12, minimum_count=1)
    language = Language(Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False), vocabulary)
    translator = TextTranslator(NoModel(), Sides(language, language), source_end=False)
    begun, free = ["aZb", "ab"], vocabulary.encode(["abc"])[0]
    forced = vocabulary.encode([" ".join(begun)])[0]
    pieces = np.concatenate([forced, free])
    weights, scores = np.eye(len(pieces), dtype=np.float32), np.arange(len(pieces), dtype=np.float32)
    said = Hypothesis(pieces, score=0.0, log_probability=0.0, word_scores=scores, trace={"alignment": weights})
    spelled = translator.spell("aZb ab abc", pieces, said, begun)
    assert spelled.target == ["aZb", "ab", "abc"]
    np.testing.assert_allclose(spelled.alignment, np.eye(3))
    assert spelled.word_scores.sum() == scores.sum()


@pytest.mark.parametrize("source_end", [True, False])
def test_parts_of_a_line_lose_no_word_spelled_like_the_end_symbol(source_end):
    translator = translator_of_random_words(source_end=source_end)
    line = "a </s> </s> b a </s>"
    (whole,) = translator.lines([(line, None)], Search(beam=2), longest=2)
    assert whole.parts == 3
    assert whole.translations[0].source == line.split()
    assert whole.translations[0].word_alignment().shape[1] == 6


def test_a_long_line_is_cut_where_a_sentence_ends_and_not_after_an_article():
    line = "le chien dort . il voit que l&apos; homme lit &quot; guerre &amp; paix &quot; ce soir"
    vocabulary = Vocabulary.learn([[line]], kind="words", size=30, minimum_count=1)
    assert in_parts(line, vocabulary, 7)[0] == "le chien dort ."
    assert in_parts(line, vocabulary, 7)[1] == "il voit que l&apos; homme lit &quot;"
    assert in_parts("a b ; c d e", vocabulary, 5)[0] == "a b ;"
