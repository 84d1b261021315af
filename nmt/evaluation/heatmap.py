"""Alignments as pictures: source words across, target words down, as in the papers."""

from math import ceil

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei")
INCHES = 0.28  # of a word
ROOMY = 140  # words that have this much; more share the room, and not all are named: 4,000 pixels are picture enough


def draw(source: list[str], target: list[str], weights: np.ndarray) -> Figure:
    """`weights` (target, source) between 0 and 1."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in FONTS if name in known]
    across, down = (INCHES * min(len(words), ROOMY) for words in (source, target))
    figure = Figure(figsize=(1.5 + across, 1.2 + down), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(*_named(source), rotation=90, fontfamily=fonts, fontsize=8)
    axes.set_yticks(*_named(target), fontfamily=fonts, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    return figure


def _named(words: list[str]) -> tuple[range, list[str]]:
    """As many as there is room for, evenly spread, with their places."""
    places = range(0, len(words), max(1, ceil(len(words) / ROOMY)))
    return places, [_plain(words[place]) for place in places]


def to_pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # matplotlib would read formulas
