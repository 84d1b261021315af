"""Write the page of a comparison: one file with its data, its styles and its scripts, which loads nothing else.

The scripts draw the charts as SVG, because lines, intervals and parallel axes need only 22 kB. Plotly would add 4.8 MB
to every page, and draws parallel axes with WebGL, which a keyboard or a screen reader cannot use. Vega and Bokeh build
scripts from strings, which the content security policy of the page forbids. The policy permits the scripts of the page
alone, by their digests, and no network; where the page is served, its server alone.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.config.installation import name_command
from nmt.report.compare.systems import ComparedSystems
from nmt.report.load.evaluated_runs import EvaluatedRun
from nmt.report.load.learning_curves import Curves
from nmt.report.load.run_folder import find_wandb
from nmt.report.render.page_payload import pack, pack_hypotheses, pack_scores
from nmt.system.files import dump_json

WEB = Path(__file__).parents[2] / "web"
SCRIPTS = (
    "elements.js", "layers.js", "heatmap.js", "text_diff.js", "charts.js", "line_chart.js", "interval_chart.js",
    "parallel_chart.js", "page_data.js", "layout.js", "leaderboard.js", "curves.js", "lengths.js",
    "alignment_panel.js", "sentences.js", "jobs.js", "comparison.js", "live.js",
)  # fmt: skip
POLICY = (
    "default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def collect_data(
    tables: dict[str, Any], compared: ComparedSystems, curves: Mapping[Path, Curves], alignments: dict[str, Any]
) -> dict[str, Any]:
    """Return the data of the page: the tables of compare.json, runs with their curves, sentences, packed alignments."""
    runs = [
        _describe_run(run, place, curves[run.folder])
        for place, system in enumerate(compared.systems)
        for run in system.members
    ]
    return {"tables": tables, "runs": runs, "sentences": _pack_sentences(compared), "alignments": alignments}


def render_page(data: Mapping[str, Any], *, is_served: bool = False) -> str:
    """Return the page with this data, each under its name; a served page may connect to its server."""
    data = {**data, "train_command": name_command("train")}
    scripts = [(WEB / name).read_text(encoding="utf-8") for name in SCRIPTS]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    parts = {
        "styles": (WEB / "shared.css").read_text(encoding="utf-8"),
        "page_styles": (WEB / "comparison.css").read_text(encoding="utf-8"),
        "policy": POLICY.format(digests=" ".join(f"'sha256-{digest}'" for digest in digests))
        + ("; connect-src 'self'" if is_served else ""),
        "data": "\n".join(
            f'<script id="data_{name}" type="application/json">{to_script_json(content)}</script>'
            for name, content in data.items()
        ),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    template = (WEB / "comparison.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: parts[placeholder[1]], template)


def _describe_run(run: EvaluatedRun, system: int, curves: Curves) -> dict[str, Any]:
    summary = run.summary
    return {
        "name": run.name,
        "system": system,
        "folder": str(run.folder),
        "status": summary.get("status"),
        "started": summary.get("started"),
        "commit": summary.get("git_commit"),
        "versions": summary.get("versions"),
        "parameters": summary.get("parameters"),
        "overrides": run.overrides,
        "wandb": find_wandb(run),
        "seconds": run.seconds,
        "steps": summary.get("steps"),
        "curves": curves.series,
        "config": pack(run.settings.text),
    }


def _pack_sentences(compared: ComparedSystems) -> dict[str, Any]:
    """Pack the sentences; the source words once for each way in which runs split them."""
    sentences = compared.baseline.members[0].evaluation.sentences
    evaluations = [run.evaluation for run in compared.runs]
    splits: dict[str, int] = {}
    split_of_run = [
        splits.setdefault(pack([sentence.source_words for sentence in evaluation.sentences]), len(splits))
        for evaluation in evaluations
    ]
    return {
        "sources": pack([sentence.source for sentence in sentences]),
        "references": pack([sentence.reference for sentence in sentences]),
        "hypotheses": pack_hypotheses([evaluation.hypotheses for evaluation in evaluations]),
        "scores": [pack_scores(evaluation.sentence_bleu) for evaluation in evaluations],
        "source_words": list(splits),
        "split_of_run": split_of_run,
    }


def to_script_json(content: Any) -> str:
    """Return JSON in which nothing can end the script element around it."""
    return dump_json(content, separators=(",", ":")).replace("<", "\\u003c")
