"""Draw alignments as heatmaps, as in the papers: source words across, target words down."""

from math import ceil

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nmt.translate.layers import Layer

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei")
INCHES_PER_WORD = 0.28
MAX_LABELS = 140  # of an axis; with more words the picture does not grow beyond 4,000 pixels, and some have no label


def draw_heatmap(source: list[str], target: list[str], weights: np.ndarray, highest: float = 1.0) -> Figure:
    """Draw (target, source) weights; 0 is white, `highest` is black."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in FONTS if name in installed]
    width, height = (INCHES_PER_WORD * min(len(words), MAX_LABELS) for words in (source, target))
    figure = Figure(figsize=(1.5 + width, 1.2 + height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=highest, aspect="auto")
    axes.set_xticks(*_select_labels(source), rotation=90, fontfamily=fonts, fontsize=8)
    axes.set_yticks(*_select_labels(target), fontfamily=fonts, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    return figure


def draw_layer(source: list[str], target: list[str], weights: np.ndarray, layer: Layer) -> Figure:
    """Draw a trace: a line or numbers over the (target, source) weights, a map or cells in place of them."""
    if layer.kind == "numbers":
        labels = [f"{word}  {value:.2f}" for word, value in zip(source, layer.values, strict=True)]
        return draw_heatmap(labels, target, weights)
    if layer.kind == "line":
        figure = draw_heatmap(source, target, weights)
        figure.axes[0].plot(layer.values - 1, range(len(layer.values)), marker="o", markersize=3, color="tab:orange")
        return figure
    columns = [str(number + 1) for number in range(layer.values.shape[1])] if layer.kind == "cells" else source
    figure = draw_heatmap(columns, target, layer.values, float(layer.values.max()))
    figure.colorbar(figure.axes[0].images[0], ax=figure.axes[0])
    return figure


def _select_labels(words: list[str]) -> tuple[range, list[str]]:
    """Return positions and labels of at most `MAX_LABELS` words, evenly spread."""
    positions = range(0, len(words), max(1, ceil(len(words) / MAX_LABELS)))
    # escape $, because matplotlib reads text between two of them as a formula
    return positions, [words[position].replace("$", r"\$") for position in positions]


def to_pixels(figure: Figure) -> np.ndarray:
    """Return the figure as (height, width, RGB)."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
