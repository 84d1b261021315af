"""Traces of translations: over the words that a translation shows, and only where they are asked for."""

import numpy as np
import pytest
from compositions import SOURCE_WORDS, composed

from nmt.data.parallel_text import Sides
from nmt.data.preprocessing import Language, Preprocessing
from nmt.data.vocabulary import Vocabulary
from nmt.search.settings import Search
from nmt.translate.text_translator import TextTranslator

LINES = ["ab abc b", "c ab"]


@pytest.fixture(scope="module")
def translator() -> TextTranslator:
    """Return an untrained model with fertility and a memory, over pieces of words."""
    vocabulary = Vocabulary.learn([["ab ab abc b cab"]], kind="bpe", size=SOURCE_WORDS, minimum_count=1)
    preprocessing = Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False)
    language = Language(preprocessing, vocabulary)
    parts = ("attention=coverage_fertility", "attention/window=local_p", "memory=buffer")
    model = composed(*parts, target_words=len(vocabulary))
    return TextTranslator(model, Sides(language, language), source_end=True)


def translate(translator: TextTranslator, search: Search, **keys):
    return list(translator.translate_lines([(line, None) for line in LINES], search, **keys))


def test_each_of_the_n_best_has_traces_over_its_words(translator):
    for line in translate(translator, Search(beam=3, nbest=2), traces=True):
        assert len(line.translations) == 2
        for one in line.translations:
            rows, columns = len(one.target), len(one.source)
            shapes = {name: values.shape for name, values in one.traces.items()}
            expected = {"coverage": (rows, columns), "fertility": (rows, columns), "position": (rows,)}
            cells = one.traces["memory_weights"].shape[2]
            expected |= {"memory_weights": (rows, 1, cells), "memory_cells": (rows, 1, cells)}
            assert shapes == expected | {"memory_gate": (rows, 1, 1)}
            np.testing.assert_allclose(one.traces["memory_weights"].sum(2), 1, atol=1e-5)
            assert (one.traces["fertility"] == one.traces["fertility"][0]).all()
            assert one.traces["position"].max() < columns


def test_a_translation_that_is_cut_has_traces_of_its_words(translator):
    (line, _) = translate(translator, Search(beam=1, longest_ratio=0.0, longest_extra=2), traces=True)
    (one,) = line.translations
    assert len(one.traces["coverage"]) == len(one.alignment) == len(one.target)


def test_without_being_asked_and_in_parts_a_translation_has_no_traces(translator):
    assert [line.translations[0].traces for line in translate(translator, Search(beam=2))] == [{}, {}]
    parts = translate(translator, Search(beam=2), traces=True, max_pieces=1)
    assert all(line.parts > 1 and line.translations[0].traces == {} for line in parts)
