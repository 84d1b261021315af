"""Alignments as heatmaps."""

import numpy as np
import pytest

from nmt.evaluation.heatmap import draw_heatmap, draw_layer, to_pixels
from nmt.translate.layers import to_layers


@pytest.mark.filterwarnings("error")
def test_axes_have_the_words_and_large_weights_are_dark():
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    figure = draw_heatmap(["ein", "$x_1$", "</s>"], ["a", "<b>"], weights)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ein", r"\$x_1\$", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "<b>"]
    pixels = to_pixels(figure)
    assert pixels.shape[2] == 3
    assert pixels.min() < 10 < 245 < pixels.max()


@pytest.mark.filterwarnings("error")
def test_picture_of_a_long_sentence_is_limited_and_labels_some_words():
    source = [f"w{number}" for number in range(2500)]
    weights = np.zeros((2, 2500))
    weights[0, :1250] = weights[1, 1250:] = 1.0
    figure = draw_heatmap(source, ["a", "b"], weights)
    (axes,) = figure.axes
    labels = axes.get_xticklabels()
    assert 100 <= len(labels) <= 140
    assert all(label.get_text() == f"w{label.get_position()[0]:.0f}" for label in labels)
    height, width, _ = to_pixels(figure).shape
    assert height < 200
    assert 4000 < width < 4200
    square = draw_heatmap(source, source, np.zeros((2500, 2500)))
    assert (square.get_size_inches() < 42).all()


@pytest.mark.filterwarnings("error")
def test_traces_are_drawn_by_their_kind():
    traces = {
        "coverage": np.array([[0.5, 0.0], [0.5, 4.0]]),
        "fertility": np.array([[1.0, 0.25], [1.0, 0.25]]),
        "position": np.array([1.0, 2.0]),
        "memory": np.array([[[0.25, 0.5, 0.25]], [[0.0, 0.5, 0.5]]]),
    }
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    figures = [draw_layer(["ein", "Haus"], ["a", "house"], weights, layer) for layer in to_layers(traces)]
    images = [figure.axes[0].images[0] for figure in figures]
    for image, values in zip(images, (traces["coverage"], weights, weights, traces["memory"][:, 0]), strict=True):
        np.testing.assert_array_equal(image.get_array(), values)
    assert [image.get_clim() for image in images] == [(0, 4), (0, 1), (0, 1), (0, 0.5)]
    labels = [[label.get_text() for label in figure.axes[0].get_xticklabels()] for figure in figures]
    assert labels == [["ein", "Haus"], ["ein  1.00", "Haus  0.25"], ["ein", "Haus"], ["1", "2", "3"]]
    (line,) = figures[2].axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0], [1, 1]])
