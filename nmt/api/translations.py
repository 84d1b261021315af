"""Translations as a notebook shows them."""

import html
from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import UserError
from nmt.translate import text_translator
from nmt.translate.alignment import link_words
from nmt.translate.layers import to_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation of a line.

    Attributes:
        text: The translation, for a reader.
        score: What the search ranks by; higher is better.
        log_probability: The log-probability of the words.
        source_words: The words that the model read, with their end symbol if it reads one.
        words: The words that the model wrote, with their end symbol.
        word_scores: The log-probability of each word.
        alignment: Attention: how much each word (row) looked at each source word (column).
        traces: What the parts of the model show, such as their coverage, by name; empty unless `traces=True`.
    """

    text: str
    score: float
    log_probability: float
    source_words: list[str]
    words: list[str]
    word_scores: np.ndarray
    alignment: np.ndarray
    traces: dict[str, np.ndarray]
    links: list[tuple[int, int]]  # each word with the source word it looked at most, as (source, target), from 0

    def plot(self, trace: str | None = None) -> "Figure":
        """Draw the alignment as a heatmap, or one of `traces`, and return the figure of matplotlib."""
        from nmt.evaluation.heatmap import draw_heatmap, draw_layer  # here, because importing matplotlib takes a second

        if trace is None:
            return draw_heatmap(self.source_words, self.words, self.alignment)
        if trace not in self.traces:
            fix = f"choose {', '.join(self.traces)}" if self.traces else "translate(..., traces=True) keeps traces"
            raise UserError(f"plot(): {trace}: this translation has no such trace. Fix: {fix}")
        (layer,) = to_layers({trace: self.traces[trace]})
        return draw_layer(self.source_words, self.words, self.alignment, layer)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Show the text, with its heatmap below, in Jupyter."""
        text = f"<p>{html.escape(self.text)} <small>({self.score:.3f})</small></p>"
        if not self.alignment.size:
            return text
        picture = BytesIO()
        self.plot().savefig(picture, format="png")
        encoded = b64encode(picture.getvalue()).decode()
        return f'{text}<img alt="alignment" src="data:image/png;base64,{encoded}">'


def to_translation(translation: text_translator.Translation) -> Translation:
    """Return what users see of a translation."""
    return Translation(
        text=translation.text,
        score=translation.score,
        log_probability=translation.log_probability,
        source_words=translation.source,
        words=translation.target,
        word_scores=translation.word_scores,
        alignment=translation.alignment,
        traces=translation.traces,
        links=link_words(translation.word_alignment()),
    )
