"""Forced decoding of given translations: scores, alignments, perplexity and n-best lists."""

import numpy as np
import pytest
from compositions import SOURCE_WORDS, TARGET_WORDS, composed
from omegaconf import OmegaConf

from nmt.config.schema import load_defaults
from nmt.data.batches import collate
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_alignments import Gold
from nmt.errors import DataError
from nmt.evaluation.attention_alignment import score_forced_alignments
from nmt.evaluation.forced_scoring import reference_perplexity, score_pairs, score_translations
from nmt.evaluation.rescoring import rescore
from nmt.translate.text_translator import TextTranslator


def english(tokenizer: str, vocabulary: Vocabulary) -> Language:
    preprocessing = Preprocessing(language="en", normalize=True, tokenizer=tokenizer, lowercase=True)
    return Language(preprocessing, vocabulary)


def untrained_translator(*, source_end: bool) -> TextTranslator:
    """Return a translator whose words are w0, w1, …"""
    words = " ".join(f"w{number}" for number in range(TARGET_WORDS))
    vocabularies = (
        Vocabulary.learn([[words]], kind="words", size=size, minimum_count=1) for size in (SOURCE_WORDS, TARGET_WORDS)
    )
    return TextTranslator(composed(), Sides(*(english("moses", one) for one in vocabularies)), source_end=source_end)


@pytest.mark.parametrize("source_end", [True, False])
def test_source_that_preprocessing_empties_has_no_scores_and_links(source_end, tmp_path):
    translator = untrained_translator(source_end=source_end)
    pairs = [SentencePair("w1 w2", "w3"), SentencePair("\x07", "w4 w5"), SentencePair("w2", "w1 w2")]
    first, emptied, last = score_translations(translator, iter(pairs))
    assert emptied is None
    assert [one.alignment.shape for one in (first, last)] == [(2, 2 + source_end), (3, 1 + source_end)]
    gold = [Gold({(1, 0)}, {(1, 0)}), Gold(set(), set()), Gold({(0, 1)}, {(0, 1)})]
    scores, _, links, _ = score_forced_alignments(translator, pairs, gold, None)
    scores_without, _, links_without, _ = score_forced_alignments(translator, pairs[::2], gold[::2], None)
    assert scores == pytest.approx(scores_without)
    assert links == [links_without[0], set(), links_without[1]]
    assert reference_perplexity(translator, pairs) == pytest.approx(reference_perplexity(translator, pairs[::2]))
    for name, texts in (("source", [pair.source for pair in pairs]), ("target", [pair.target for pair in pairs])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "nbest").write_text("0 ||| w3 ||| -1\n1 ||| w4 ||| -1\n")
    for task, key, second in ((score_pairs, "score", "target"), (rescore, "rescore", "nbest")):
        keys = {key: [str(tmp_path / "source"), str(tmp_path / second)]}
        with pytest.raises(DataError, match="source, line 2: is empty after preprocessing"):
            list(task(translator, OmegaConf.merge(load_defaults("evaluate"), keys)))


def test_the_attention_of_a_step_may_be_that_of_the_word_it_reads():
    translator = untrained_translator(source_end=True)
    pairs = [SentencePair("w1 w2 w3", "w3 w1"), SentencePair("w2", "w1")]
    predicted, read = (
        list(score_translations(translator, iter(pairs), aligned_word=aligned_word))
        for aligned_word in ("predicted", "read")
    )
    for one, other in zip(predicted, read, strict=True):
        np.testing.assert_array_equal(other.alignment[:-1], one.alignment[1:])
        np.testing.assert_array_equal(other.alignment[-1], one.alignment[-1])
        assert not np.array_equal(one.alignment[0], one.alignment[1])
    gold = [Gold({(2, 0), (0, 1)}, {(2, 0), (0, 1)}), Gold({(0, 0)}, {(0, 0)})]
    for aligned_word, scored in (("predicted", predicted), ("read", read)):
        attention_on_links = scored[0].alignment[0, 2] + scored[0].alignment[1, 0] + scored[1].alignment[0, 0]
        attention_on_words = sum(one.alignment[:-1, :-1].sum() for one in scored)
        scores = score_forced_alignments(translator, pairs, gold, None, aligned_word=aligned_word).scores
        assert scores["saer"] == pytest.approx(100 * (1 - 2 * attention_on_links / (attention_on_words + 3)))


def test_words_with_unknown_letters_count_as_words_in_perplexity():
    """The words of these references end with letters that are not in the vocabulary."""
    vocabulary = Vocabulary.learn([[" ".join("abcdefghij")]], kind="bpe", size=30, minimum_count=1)
    language = english("none", vocabulary)
    translator = TextTranslator(composed(), Sides(language, language), source_end=True)
    pairs = [SentencePair("a b", "a? b"), SentencePair("b", "?? a b?")]
    scored = list(score_translations(translator, iter(pairs)))
    words = sum(len(translation.word_scores) for translation in scored)
    assert words == 2 + 1 + 3 + 1  # with an end symbol each
    expected = np.exp(-sum(translation.log_probability for translation in scored) / words)
    assert reference_perplexity(translator, pairs)["perplexity"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_no_batch_has_more_sentences_than_batch_size(batch_size, monkeypatch):
    translator, sizes = untrained_translator(source_end=True), []

    def record_size(text, sentences, **options):
        sizes.append(len(sentences))
        return collate(text, sentences, **options)

    monkeypatch.setattr("nmt.evaluation.forced_scoring.collate", record_size)
    pairs = [SentencePair("w1 w2", "w3"), SentencePair("w2", "w1 w2 w4"), SentencePair("w1", "w3 w3")]
    one_batch = [scored.log_probability for scored in score_translations(translator, iter(pairs))]
    assert sizes == [3]
    batches = [scored.log_probability for scored in score_translations(translator, iter(pairs), batch_size=batch_size)]
    assert max(sizes[1:]) == batch_size
    assert batches == pytest.approx(one_batch, rel=1e-5)
    sizes.clear()
    reference_perplexity(translator, pairs, batch_size=batch_size)
    score_forced_alignments(translator, pairs, [Gold(set(), set())] * 3, None, batch_size=batch_size)
    assert max(sizes) == batch_size
    assert sum(sizes) == 6
