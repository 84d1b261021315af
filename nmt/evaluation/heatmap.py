"""Draw alignments as heatmaps, as in the papers: source words across, target words down."""

from math import ceil

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei")
INCHES_PER_WORD = 0.28
MAX_LABELS = 140  # of an axis; with more words the picture does not grow beyond 4,000 pixels, and some have no label


def draw_heatmap(source: list[str], target: list[str], weights: np.ndarray) -> Figure:
    """Draw (target, source) weights between 0 and 1."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in FONTS if name in installed]
    width, height = (INCHES_PER_WORD * min(len(words), MAX_LABELS) for words in (source, target))
    figure = Figure(figsize=(1.5 + width, 1.2 + height), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(*_select_labels(source), rotation=90, fontfamily=fonts, fontsize=8)
    axes.set_yticks(*_select_labels(target), fontfamily=fonts, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
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
