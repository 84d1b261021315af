"""Alignments as pictures: source words across, target words down, as in the papers."""

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei")


def draw(source: list[str], target: list[str], weights: np.ndarray) -> Figure:
    """`weights` (target, source) between 0 and 1."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in FONTS if name in known]
    figure = Figure(figsize=(1.5 + 0.28 * len(source), 1.2 + 0.28 * len(target)), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), [_plain(word) for word in source], rotation=90, fontfamily=fonts, fontsize=8)
    axes.set_yticks(range(len(target)), [_plain(word) for word in target], fontfamily=fonts, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    return figure


def to_pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # matplotlib would read formulas
