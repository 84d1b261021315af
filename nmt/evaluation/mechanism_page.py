"""Write mechanism.json as a page that needs no other file: tables, and pictures of the first translations."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from nmt.translate.layers import to_layers
from nmt.translate.text_translator import Translation

WEB = Path(__file__).parents[1] / "web"
MAX_ROWS = 40  # of a table
NEXT = "The list shows the mean attention that a source word gets in the next step, from low to high values."
ABOUT = {  # by the kind of a trace
    "map": f"A number for each source word and step. {NEXT}",
    "numbers": "A number for each source word, the same in all steps.",
    "line": "A source position in each step. Distances are to the mean position of the attention, in words.",
    "cells": "Numbers beside the source in each step.",
}


def render_mechanism(title: str, figures: Mapping[str, Any], translations: Sequence[Translation]) -> str:
    """Return the page.

    Args:
        title: The heading.
        figures: The content of mechanism.json.
        translations: The translations to draw.
    """
    parts = [*_render_figures("attention_received", figures["attention_received"], f"In all steps so far. {NEXT}")]
    for name, values in figures["traces"].items():
        parts += _render_figures(name, values, ABOUT[values["kind"]])
        parts += _draw(name, translations)
    content = {
        "title": escape(title),
        "styles": (WEB / "shared.css").read_text(encoding="utf-8"),
        "content": "\n".join(parts),
    }
    template = (WEB / "mechanism.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: content[placeholder[1]], template)


def _render_figures(name: str, figures: Mapping[str, Any], about: str) -> Iterator[str]:
    """Yield a heading, a table of the single figures, and a table for each list."""
    yield f"<h2>{escape(_to_words(name))}</h2><p>{about}</p>"
    single = {key: value for key, value in figures.items() if not isinstance(value, list) and key != "kind"}
    yield _render_table([[_to_words(key), _format(value)] for key, value in single.items()])
    for key, rows in figures.items():
        if isinstance(rows, list) and rows:
            heads = list(rows[0]) if isinstance(rows[0], dict) else ["cell", "mean"]
            cells = [row.values() if isinstance(row, dict) else (at, row) for at, row in enumerate(rows, start=1)]
            more = f" (the first {MAX_ROWS} of {len(rows)})" if len(rows) > MAX_ROWS else ""
            yield f"<p>{escape(_to_words(key))}{more}</p>"
            yield _render_table([[_format(cell) for cell in row] for row in cells[:MAX_ROWS]], heads)


def _render_table(rows: Sequence[Sequence[str]], heads: Sequence[str] = ()) -> str:
    head = f"<tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>" if heads else ""
    lines = (f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{head}{''.join(lines)}</table>"


def _draw(name: str, translations: Sequence[Translation]) -> Iterator[str]:
    """Yield a picture of a trace for each translation that has it."""
    from nmt.evaluation.heatmap import draw_layer  # imported here, because matplotlib is slow to import

    for translation in translations:
        for layer in to_layers({name: translation.traces[name]} if name in translation.traces else {}):
            picture = BytesIO()
            figure = draw_layer(translation.source, translation.target, translation.alignment, layer)
            figure.savefig(picture, dpi=80)
            content = base64.b64encode(picture.getvalue()).decode()
            text = escape(f"{_to_words(name)}: {translation.text}", quote=True)
            yield f'<figure><img alt="{text}" src="data:image/png;base64,{content}" /></figure>'


def _format(value: Any) -> str:
    return "–" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)


def _to_words(key: str) -> str:
    return key.replace("_", " ")
