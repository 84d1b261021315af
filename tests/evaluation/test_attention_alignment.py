"""Alignment quality: links of weights, hard and soft error rates, and links from files."""

import os
from pathlib import Path

import numpy as np
import pytest
from compositions import SOURCE_WORDS, TARGET_WORDS, composed
from omegaconf import OmegaConf

from nmt.config.schema import defaults_of
from nmt.data.batches import collate
from nmt.data.parallel_text import FilePairs, Line, Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.toy_corpus import ToyPairs
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_alignments import Gold
from nmt.errors import DataError
from nmt.evaluation.attention_alignment import (
    between_blanks,
    forced_scores,
    in_per_cent,
    judged,
    linked,
    score_files,
    shared_letters,
)
from nmt.evaluation.forced_scoring import perplexity, score_pairs, scored
from nmt.evaluation.rescoring import rescore
from nmt.translate.text_translator import TextTranslator

WEIGHTS = np.array([[0.7, 0.3, 0.0], [0.1, 0.5, 0.4], [0.0, 0.0, 0.0]])  # (target, source)


def test_links_are_the_best_for_each_target_word_or_all_above_a_threshold():
    assert linked(WEIGHTS, None) == {(0, 0), (1, 1)}  # nothing attended to, nothing linked
    assert linked(WEIGHTS, 0.3) == {(0, 0), (1, 0), (1, 1), (2, 1)}
    assert linked(WEIGHTS, 0.71) == set()


def test_hard_and_soft_error_rates_by_hand():
    gold = [Gold({(0, 0)}, {(0, 0), (2, 1)})]
    # hard: A = {0-0, 1-1}, |A∩S| = 1, |A∩P| = 1: AER = 1 − 2/3, precision 1/2, recall 1
    # soft: |A×S| = .7, |A×P| = .7 + .4, |A| = 2, |S| = 1: SAER = 1 − 1.8/3
    assert judged([WEIGHTS], gold, None).scores == pytest.approx(
        {
            "aer": 100 / 3,
            "saer": 40.0,
            "alignment_precision": 50.0,
            "alignment_recall": 100.0,
            "alignment_f1": 200 / 3,
        }
    )
    assert judged([np.eye(3)], [Gold({(0, 0), (1, 1), (2, 2)}, set())], None).scores["saer"] == 0.0


def test_error_rates_are_those_of_the_counts_of_sentences_together():
    gold = [Gold({(0, 0)}, {(0, 0), (2, 1)}), Gold(set(), set())]
    found = judged([WEIGHTS, np.zeros((2, 1))], gold, 0.3)
    # hard: A = {0-0, 1-0, 1-1, 2-1}, S = {0-0}, P has 2-1 too
    np.testing.assert_allclose(found.counts, [[4, 1, 1, 2, 2.0, 1, 0.7, 1.1], [0] * 8])
    assert in_per_cent(found.counts.sum(0)) == pytest.approx([found.scores["aer"], found.scores["saer"]])
    assert in_per_cent(found.counts).tolist()[1] == [0, 0]


def test_files_of_links_are_scored_and_defects_named(tmp_path):
    (tmp_path / "links").write_text("0-0 1-1\n2-0\n")
    (tmp_path / "gold").write_text("1-1 3p2\n3-1\n")
    scores = score_files(tmp_path / "links", tmp_path / "gold", links_base=0, gold_base=1)
    assert scores["aer"] == pytest.approx(100 * (1 - 4 / 5))  # |A| = 3, |S| = 2, both found and nothing else possible
    (tmp_path / "links").write_text("0-0\n")
    with pytest.raises(DataError, match=r"links ends after line 1, .*gold goes on"):
        score_files(tmp_path / "links", tmp_path / "gold", links_base=0, gold_base=1)
    (tmp_path / "links").write_text("0-0\n1:2\n")
    with pytest.raises(DataError, match=r"links, line 2: '1:2' is not a link"):
        score_files(tmp_path / "links", tmp_path / "gold", links_base=0, gold_base=1)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_gold_without_a_link_is_nothing_to_score_against(tmp_path, content):
    links, gold = tmp_path / "links", tmp_path / "gold"
    links.write_text(content)
    gold.write_text(content)
    with pytest.raises(DataError, match=f"{gold}: has no links; there is nothing to score {links} against"):
        score_files(links, gold, links_base=0, gold_base=1)


def test_gold_comes_with_the_toy_language_and_with_files(tmp_path):
    toy = ToyPairs("test", 2).gold()
    assert [sorted(gold.sure) for gold in toy] == [sorted(links) for links in ToyPairs("test", 2).links()]
    for name in ("source", "target"):
        (tmp_path / name).write_text("a b\n")
    (tmp_path / "gold").write_text("0-0 1p1\n")
    paths = {name: str(tmp_path / name) for name in ("source", "target")}
    assert FilePairs(**paths).gold() is None
    (gold,) = FilePairs(**paths, alignments=str(tmp_path / "gold"), alignments_base=0).gold()
    assert gold == Gold({(0, 0)}, {(0, 0), (1, 1)})


def preprocessing(language: str, tokenizer: str) -> Preprocessing:
    return Preprocessing(language=language, normalize=True, tokenizer=tokenizer, lowercase=True)


def test_weights_of_what_the_model_sees_become_weights_of_words_between_blanks():
    source = shared_letters(1, "科学家 Paris 猜想", preprocessing("zh", "characters"))  # 科 学 家 paris 猜 想
    target = shared_letters(1, "scientists guess-work .", preprocessing("en", "moses"))
    assert source.tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 5, 0], [0, 0, 1], [0, 0, 1]]
    assert target.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 1]]
    seen = np.array([[0.1, 0.2, 0.3, 0.0, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0, 0.0, 0.5]])
    np.testing.assert_allclose(between_blanks(seen, source, target), [[0.6, 0, 0.4], [0, 1, 0], [0.5, 0, 0.5]])


def test_a_word_between_blanks_that_the_model_sees_as_two_gets_the_mean_of_their_letters():
    target = shared_letters(1, "don't go", preprocessing("en", "moses"))  # don &apos;t go
    assert target.tolist() == [[3, 0], [7, 0], [0, 2]]
    seen = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    np.testing.assert_allclose(between_blanks(seen, np.eye(2), target), [[0.3, 0.7], [0.5, 0.5]])


def test_words_that_the_model_sees_as_one_share_its_weight():
    source = np.array([[2.0, 6.0], [0.0, 1.0]])  # as when a normaliser takes a blank away
    np.testing.assert_allclose(between_blanks(np.array([[0.4, 0.6]]), source, np.eye(1)), [[0.1, 0.9]])


def test_preprocessing_that_changes_letters_is_named():
    with pytest.raises(DataError, match=r"pair 7: .*becomes '1.000 m'\): a run with .*normalize=false"):
        shared_letters(7, "1\u00a0000 m", preprocessing("de", "moses"))


def translator_of_few_words(*, source_end: bool) -> TextTranslator:
    """Untrained; it knows w0, w1, …"""
    words = " ".join(f"w{number}" for number in range(TARGET_WORDS))
    languages = Sides(
        *(
            Language(
                preprocessing("en", "moses"), Vocabulary.learn([[words]], kind="words", size=size, minimum_count=1)
            )
            for size in (SOURCE_WORDS, TARGET_WORDS)
        )
    )
    return TextTranslator(composed(), languages, source_end=source_end)


@pytest.mark.parametrize("source_end", [True, False])
def test_a_source_that_preprocessing_empties_is_neither_scored_nor_linked(source_end, tmp_path):
    translator = translator_of_few_words(source_end=source_end)
    lines = [Line("w1 w2", "w3"), Line("\x07", "w4 w5"), Line("w2", "w1 w2")]
    first, emptied, last = scored(translator, iter(lines))
    assert emptied is None
    assert [one.alignment.shape for one in (first, last)] == [(2, 2 + source_end), (3, 1 + source_end)]
    gold = [Gold({(1, 0)}, {(1, 0)}), Gold(set(), set()), Gold({(0, 1)}, {(0, 1)})]
    scores, found, _ = forced_scores(translator, lines, gold, None)
    scores_without, found_without, _ = forced_scores(translator, lines[::2], gold[::2], None)
    assert scores == pytest.approx(scores_without)
    assert found == [found_without[0], set(), found_without[1]]
    assert perplexity(translator, lines) == pytest.approx(perplexity(translator, lines[::2]))
    for name, texts in (("source", [line.source for line in lines]), ("target", [line.target for line in lines])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "nbest").write_text("0 ||| w3 ||| -1\n1 ||| w4 ||| -1\n")
    for verb, key, second in ((score_pairs, "score", "target"), (rescore, "rescore", "nbest")):
        given = {key: [str(tmp_path / "source"), str(tmp_path / second)]}
        with pytest.raises(DataError, match="source, line 2: nothing is left of it after preprocessing"):
            list(verb(translator, OmegaConf.merge(defaults_of("evaluate"), given)))


def test_words_of_unknown_letters_count_as_words_in_perplexity():
    """The model knows letters; the words of these references end with letters that it does not know."""
    learnt = [" ".join("abcdefghij")]
    vocabulary = Vocabulary.learn([learnt], kind="bpe", size=30, minimum_count=1)
    language = Language(preprocessing("en", "none"), vocabulary)
    translator = TextTranslator(composed(), Sides(language, language), source_end=True)
    lines = [Line("a b", "a? b"), Line("b", "?? a b?")]
    given = list(scored(translator, iter(lines)))
    words = sum(len(one.word_scores) for one in given)  # an end symbol each
    assert words == 2 + 1 + 3 + 1
    expected = np.exp(-sum(one.log_probability for one in given) / words)
    assert perplexity(translator, lines)["perplexity"] == pytest.approx(expected, rel=1e-5)


GIVEN = Path(os.environ.get("NMT_DATA", "data")) / "alignments"


@pytest.mark.skipif(not GIVEN.is_dir(), reason="needs the gold alignments under NMT_DATA")
@pytest.mark.parametrize(("pair", "known"), [("zhen", 13.3), ("enfr", 4.1)])
def test_a_known_aligner_has_its_known_error_rate(pair, known):
    scores = score_files(GIVEN / f"{pair}.awesome-align.out", GIVEN / f"{pair}.gold", links_base=0, gold_base=1)
    assert scores["aer"] == pytest.approx(known, abs=0.05)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_no_more_sentences_at_once_than_asked_for(batch_size, monkeypatch):
    translator, sizes = translator_of_few_words(source_end=True), []

    def watched(text, sentences, **how):
        sizes.append(len(sentences))
        return collate(text, sentences, **how)

    monkeypatch.setattr("nmt.evaluation.forced_scoring.collate", watched)
    lines = [Line("w1 w2", "w3"), Line("w2", "w1 w2 w4"), Line("w1", "w3 w3")]
    together = [given.log_probability for given in scored(translator, iter(lines))]
    assert sizes == [3]
    apart = [given.log_probability for given in scored(translator, iter(lines), batch_size=batch_size)]
    assert max(sizes[1:]) == batch_size
    assert apart == pytest.approx(together, rel=1e-5)
    sizes.clear()
    perplexity(translator, lines, batch_size=batch_size)
    forced_scores(translator, lines, [Gold(set(), set())] * 3, None, batch_size=batch_size)
    assert max(sizes) == batch_size
    assert sum(sizes) == 6
