"""Words that the vocabulary does not contain: they stay as written, each a word by itself."""

import numpy as np
import pytest
from compositions import SOURCE_WORDS, TARGET_WORDS, composed

from nmt.data.parallel_text import Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.search.beam import Hypothesis
from nmt.search.settings import Search
from nmt.translate.long_lines import split_line
from nmt.translate.text_translator import TextTranslator
from nmt.translate.unknown_words import UnknownWords


def hypothesis_of(words: np.ndarray, word_scores: np.ndarray, alignment: np.ndarray) -> Hypothesis:
    return Hypothesis(words, score=0.0, log_probability=0.0, word_scores=word_scores, trace={"alignment": alignment})


class NoModel:
    def to(self, device):
        return self

    def eval(self):
        return self


def test_words_of_unknown_letters_stay_separate():
    vocabulary = Vocabulary.learn([["科 学 ab"]], kind="bpe", size=30, minimum_count=1)
    language = Language(
        Preprocessing(language="zh", normalize=False, tokenizer="characters", lowercase=False), vocabulary
    )
    translator = TextTranslator(NoModel(), Sides(language, language), source_end=True)
    (source,) = vocabulary.encode(["科 学 家 ab"])
    weights = np.array([[0.1, 0.2, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]], dtype=np.float32)
    hypothesis = hypothesis_of(source[:1], np.zeros(2), weights)
    translation = translator.build_translation("科 学 家 ab", source, hypothesis)
    assert translation.source == ["科", "学", "家", "ab", "</s>"]
    assert translation.word_alignment().argmax() == 2
    np.testing.assert_allclose(translation.alignment, weights)


def language_of(words: int) -> Language:
    """Return a language of `a`, `b` and as many more words as a vocabulary of this size holds."""
    text = " ".join(["a", "b", *(f"w{number}" for number in range(words))])
    vocabulary = Vocabulary.learn([[text]], kind="words", size=words, minimum_count=1)
    return Language(Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False), vocabulary)


def translator_of_random_words(*, source_end: bool) -> TextTranslator:
    languages = Sides(language_of(SOURCE_WORDS), language_of(TARGET_WORDS))
    return TextTranslator(composed(), languages, source_end=source_end)


@pytest.mark.parametrize("source_end", [True, False])
def test_a_word_that_looks_like_the_end_symbol_is_an_ordinary_word(source_end):
    translator = translator_of_random_words(source_end=source_end)
    (source,), target = translator.languages.source.vocabulary.encode(["a </s> b"]), translator.languages.target
    weights = np.zeros((3, 3 + source_end), dtype=np.float32)
    weights[0, 1] = weights[1, 2] = weights[2, 0] = 1.0
    unknown = target.vocabulary.encode(["? ?"])[0]
    hypothesis = hypothesis_of(unknown, np.zeros(3), weights)
    translation = translator.build_translation("a </s> b", source, hypothesis)
    np.testing.assert_array_equal(translation.word_alignment(), weights[:2, :3])
    copied = UnknownWords(target, None)(translation)
    assert copied.words == "</s> b"
    assert copied.word_alignment().shape == (2, 3)


def test_an_unknown_word_of_a_prefix_stays_as_written():
    translator = translator_of_random_words(source_end=True)
    replace_unknown = UnknownWords(translator.languages.target, None)
    (line,) = translator.translate_lines([("a b w1", "Melfy a Fyn")], Search(beam=2))
    best = replace_unknown(line.translations[0])
    assert best.target[:3] == best.words.split()[:3] == best.text.split()[:3] == ["Melfy", "a", "Fyn"]
    assert len(best.target) == len(best.alignment) == len(best.word_scores)
    (split,) = translator.translate_lines([("a b w1", "Melfy")], Search(beam=2), max_pieces=2)
    assert split.parts == 2
    assert [place for place, word in enumerate(split.translations[0].target) if word == "Melfy"] == [0]


def test_words_of_a_prefix_stay_separate_with_bpe_pieces_too():
    vocabulary = Vocabulary.learn([["ab ab abc"]], kind="bpe", size=12, minimum_count=1)
    language = Language(Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False), vocabulary)
    translator = TextTranslator(NoModel(), Sides(language, language), source_end=False)
    prefix, free = ["aZb", "ab"], vocabulary.encode(["abc"])[0]
    forced = vocabulary.encode([" ".join(prefix)])[0]
    pieces = np.concatenate([forced, free])
    weights, scores = np.eye(len(pieces), dtype=np.float32), np.arange(len(pieces), dtype=np.float32)
    hypothesis = hypothesis_of(pieces, scores, weights)
    translation = translator.build_translation("aZb ab abc", pieces, hypothesis, prefix)
    assert translation.target == ["aZb", "ab", "abc"]
    np.testing.assert_allclose(translation.alignment, np.eye(3))
    assert translation.word_scores.sum() == scores.sum()


def test_each_batch_of_samples_is_drawn_with_another_seed():
    search = Search(sample=True, nbest=4, temperature=3.0, longest_ratio=0.0, longest_extra=12)
    lists = translator_of_random_words(source_end=True)(["a b", "a b"], search, batch_size=1)
    first, second = ([one.words for one in nbest] for nbest in lists)
    assert first != second


@pytest.mark.parametrize("source_end", [True, False])
def test_parts_of_a_line_lose_no_word_that_looks_like_the_end_symbol(source_end):
    translator = translator_of_random_words(source_end=source_end)
    line = "a </s> </s> b a </s>"
    (joined,) = translator.translate_lines([(line, None)], Search(beam=2), max_pieces=2)
    assert joined.parts == 3
    assert joined.translations[0].source == line.split()
    assert joined.translations[0].word_alignment().shape[1] == 6


def test_a_long_line_is_split_at_a_sentence_end_and_not_after_an_article():
    line = "le chien dort . il voit que l&apos; homme lit &quot; guerre &amp; paix &quot; ce soir"
    vocabulary = Vocabulary.learn([[line]], kind="words", size=30, minimum_count=1)
    assert split_line(line, vocabulary, 7)[0] == "le chien dort ."
    assert split_line(line, vocabulary, 7)[1] == "il voit que l&apos; homme lit &quot;"
    assert split_line("a b ; c d e", vocabulary, 5)[0] == "a b ;"
