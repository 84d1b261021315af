"""Alignments as pictures."""

import numpy as np
import pytest

from nmt.evaluation.heatmap import draw, to_pixels


@pytest.mark.filterwarnings("error")
def test_words_stand_on_the_axes_and_weights_are_dark():
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    figure = draw(["ein", "$x_1$", "</s>"], ["a", "<b>"], weights)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ein", r"\$x_1\$", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "<b>"]
    pixels = to_pixels(figure)
    assert pixels.shape[2] == 3
    assert pixels.min() < 10 < 245 < pixels.max()
