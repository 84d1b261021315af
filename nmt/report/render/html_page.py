"""The page of a comparison: one file that holds its data, its looks and its programs, and asks nobody for anything.

The charts are drawn by charts.js as SVG: lines, intervals and parallel axes need some 17 kB. Plotly brings 4.8 MB that
every page would hold and every opening parse, draws parallel axes by WebGL alone, and leaves little that a keyboard or
a screen reader could find; Vega and Bokeh build programs from strings, which the page's policy forbids. That policy
permits the page's own programs, by their digests, and nothing to be loaded or sent.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.report.compare.systems import Compared, Field
from nmt.report.load.safe_files import showable
from nmt.report.render.page_payload import packed, packed_alignments, packed_scores, packed_side_by_side, sentence_bleu

WEB = Path(__file__).parents[2] / "web"
PROGRAMS = ("heatmap.js", "charts.js", "text_diff.js", "sentences.js", "comparison.js")
POLICY = (
    "default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def contents(found: Field, room: float) -> dict[str, Any]:
    """All that the page holds beside the tables; at most `room` bytes are alignments. What cannot be read is noted."""
    scores = [sentence_bleu(one.on) for one in found.runs]
    alignments = packed_alignments([(one.run, one.on) for one in found.runs], scores, room)
    systems = [place for place, system in enumerate(found.systems) for _ in system.members]
    return {
        "runs": [showable(_of_run(one, system)) for one, system in zip(found.runs, systems, strict=True)],
        "sentences": _sentences(found, scores),
        "alignments": alignments,
    }


def _of_run(one: Compared, system: int) -> dict[str, Any]:
    run, summary = one.run, one.run.summary
    return {
        "name": one.name,
        "system": system,
        "folder": str(run.folder),
        "status": summary.get("status"),
        "started": summary.get("started"),
        "commit": summary.get("git_commit"),
        "versions": summary.get("versions"),
        "parameters": summary.get("parameters"),
        "overrides": run.overrides,
        "wandb": run.wandb,
        "seconds": summary.get("wall_seconds"),
        "steps": summary.get("steps"),
        "curves": run.curves.series,
        "config": packed(run.config_text),
    }


def _sentences(found: Field, scores: Sequence[np.ndarray]) -> dict[str, Any]:
    """Sources and references once; the words of sources once for each way in which runs split them."""
    first = found.baseline.members[0].on.sentences
    splits: dict[str, int] = {}
    split_of_run = [
        splits.setdefault(packed([sentence.source_words for sentence in one.on.sentences]), len(splits))
        for one in found.runs
    ]
    return {
        "sources": packed([sentence.source for sentence in first]),
        "references": packed([sentence.reference for sentence in first]),
        "hypotheses": packed_side_by_side([one.on.hypotheses for one in found.runs]),
        "scores": [packed_scores(of_run) for of_run in scores],
        "source_words": list(splits),
        "split_of_run": split_of_run,
    }


def assembled(tables: dict[str, Any], content: dict[str, Any]) -> str:
    programs = [(WEB / name).read_text(encoding="utf-8") for name in PROGRAMS]
    held = {"tables": tables, **content}
    parts = {
        "styles": (WEB / "shared.css").read_text(encoding="utf-8"),
        "policy": POLICY.format(digests=" ".join(map(_digest, programs))),
        "data": "\n".join(
            _element(f'id="data_{name}" type="application/json"', as_json(of)) for name, of in held.items()
        ),
        "programs": "\n".join(_element("", program) for program in programs),
    }
    template = (WEB / "comparison.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def as_json(content: Any) -> str:
    """Nothing in it can end the element that it stands in."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _element(attributes: str, text: str) -> str:
    return f"<script {attributes}>{text}</script>" if attributes else f"<script>{text}</script>"


def _digest(program: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()}'"
