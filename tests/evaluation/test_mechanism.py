"""Figures of a mechanism, on values made by hand."""

import math

import numpy as np
import pytest

from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.word_alignments import Gold
from nmt.evaluation import mechanism, test_set
from nmt.evaluation.mechanism import Traced, compute_figures, correlate, count_gold_links, relate_to_attention
from nmt.evaluation.mechanism_page import render_mechanism
from nmt.translate.text_translator import Translation

WEIGHTS = np.array([[0.8, 0.2, 0.0], [0.1, 0.5, 0.4], [0.0, 0.0, 1.0]])  # the last row and column are end symbols


def translation_of(traces: dict | None = None, source: str = "a b </s>") -> Translation:
    ends = {"text": "x y", "words": "x y", "has_end": Sides(True, True)}
    words = {"source": source.split(), "target": ["x", "y", "</s>"], "alignment": WEIGHTS}
    return Translation.empty()._replace(**words, **ends, traces=traces or {})


def test_attention_is_related_to_the_value_in_the_step_before():
    values, weights = np.array([[0.0, 1.0, 3.0], [9.0, 9.0, 9.0]]), np.array([[0.5, 0.5, 0.0], [0.7, 0.5, 0.1]])
    figures = relate_to_attention([values, values], [weights, weights])
    assert figures["correlation_with_next_attention"] == pytest.approx(-1, abs=1e-3)
    assert figures["attention_by_value"] == [
        {"value": 0.0, "attention": 0.7, "count": 2},
        {"value": 1.0, "attention": 0.5, "count": 1},
        {"value": 1.0, "attention": 0.5, "count": 1},
        {"value": 3.0, "attention": 0.1, "count": 1},
        {"value": 3.0, "attention": 0.1, "count": 1},
    ]


def test_a_map_leaves_out_end_symbols():
    values = np.array([[1.0, 2.0, 99.0], [99.0, 99.0, 99.0], [99.0, 99.0, 99.0]])
    figures = mechanism.describe_map([Traced(translation_of(), values, None)])
    assert figures["correlation_with_next_attention"] == 1.0  # 1 → 0.1, 2 → 0.5
    assert [group["attention"] for group in figures["attention_by_value"]] == [0.1, 0.5]


def test_numbers_are_averaged_by_word_and_by_gold_links():
    traced = [
        Traced(translation_of(), np.array([0.5, 1.0, 7.0]), np.array([0, 1])),
        Traced(translation_of(source="b c </s>"), np.array([2.0, 1.5, 7.0]), np.array([3, 2])),
        Traced(translation_of(source="b c </s>"), np.array([0.0, 1.5, 7.0]), None),
    ]
    figures = mechanism.describe_numbers(traced)
    assert figures["mean"] == pytest.approx(6.5 / 6, abs=1e-4)
    assert figures["by_word"] == [
        {"word": "b", "mean": 1.0, "count": 3},
        {"word": "c", "mean": 1.5, "count": 2},
        {"word": "a", "mean": 0.5, "count": 1},
    ]
    assert figures["correlation_with_gold_links"] == 1.0
    assert [(one["links"], one["mean"]) for one in figures["by_gold_links"]] == [(0, 0.5), (1, 1.0), (2, 1.5), (3, 2.0)]


def test_a_line_is_compared_with_the_mean_position_of_the_attention():
    """These means are 1.2, (0.1 + 1 + 1.2) / 1 = 2.3 and 3."""
    figures = mechanism.describe_line([Traced(translation_of(), np.array([2.2, 2.3, 1.0]), None)])
    assert figures == {"mean_distance": 1.0, "mean_offset": pytest.approx(-1 / 3, abs=1e-4), "count": 3}
    nowhere = translation_of()._replace(alignment=np.zeros((3, 3)))
    assert mechanism.describe_line([Traced(nowhere, np.ones(3), None)])["mean_distance"] is None


def test_weights_of_cells_have_an_entropy_and_a_change():
    one_hot, uniform = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.5]])
    figures = mechanism.describe_cells([Traced(translation_of(), values, None) for values in (one_hot, uniform)])
    assert figures == {
        "mean": 0.5,
        "mean_of_last_step": 0.5,
        "mean_change": 1.0,  # within the first sentence; the second has one step
        "by_cell": [0.5, 0.5],
        "mean_entropy": pytest.approx(math.log(2) / 3, abs=1e-4),
        "largest_entropy": pytest.approx(math.log(2), abs=1e-4),
    }
    gate = mechanism.describe_cells([Traced(translation_of(), np.array([[0.0], [0.5], [1.0]]), None)])
    assert gate == {"mean": 0.5, "mean_of_last_step": 1.0, "mean_change": 0.5, "by_cell": [0.5]}


def test_a_correlation_needs_two_different_values():
    assert correlate([1, 2, 3], [3, 2, 1]) == -1.0
    assert correlate([1, 1, 1], [1, 2, 3]) is None
    assert correlate([1], [1]) is None


def test_the_kind_of_a_trace_decides_its_figures():
    traces = {
        "filled": np.array([[0.8, 0.2, 0.0], [0.9, 0.7, 0.4], [0.9, 0.7, 1.4]]),
        "fixed": np.full((3, 3), 2.0),
        "centre": np.array([1.0, 2.0, 3.0]),
        "store": np.ones((3, 1, 4)),
    }
    figures = compute_figures([translation_of(traces), translation_of()], [None, None])
    assert {name: values["kind"] for name, values in figures["traces"].items()} == {
        "filled": "map",
        "fixed": "numbers",
        "centre": "line",
        "store": "cells",
    }
    assert {values["sentences"] for values in figures["traces"].values()} == {1}
    # before 0.8 and 0.2, then 0.1 and 0.5
    assert figures["attention_received"]["correlation_with_next_attention"] == -1.0
    assert figures["traces"]["filled"]["correlation_with_next_attention"] == -1.0


def test_gold_links_are_counted_where_the_model_has_the_words_of_the_text():
    links = {(0, 0), (0, 1), (1, 1)}
    pairs = [SentencePair("a b", "x y"), SentencePair("a-b", "x y")]
    test = test_set.TestSet("test", pairs, [], [Gold(set(), links)] * 2, 0, "text")
    first, second = count_gold_links(test, [translation_of()] * 2)
    assert first.tolist() == [2, 1]
    assert second is None
    assert list(count_gold_links(test._replace(gold=None), [translation_of()] * 2)) == [None, None]


def test_the_page_has_figures_and_pictures_and_no_markup_of_the_text():
    traces = {"fixed": np.full((3, 3), 2.0), "centre": np.array([1.0, 2.0, 3.0]), "store": np.ones((3, 1, 4))}
    translations = [translation_of(traces, source="<script> b </s>")]
    page = render_mechanism("a & b", compute_figures(translations, [None]), translations)
    assert "<h1>a &amp; b</h1>" in page
    assert "<tr><td>&lt;script&gt;</td><td>2</td><td>1</td></tr>" in page
    assert "<script" not in page
    assert page.count('src="data:image/png;base64,') == 3
    assert "{{" not in page
