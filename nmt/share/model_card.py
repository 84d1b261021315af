"""Write the model card of a run: what the model is, how it was trained, its scores, how to load and cite it."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra.utils
import yaml
from omegaconf import OmegaConf

from nmt.config.allowed_targets import walk
from nmt.config.installation import name_command
from nmt.evaluation.stored_evaluation import (
    DEFAULTS,
    parse_checkpoint,
    parse_scores,
    parse_search,
    parse_text_overrides,
)
from nmt.report.load.run_folder import read_overrides
from nmt.report.render.table import Table, escape_markdown
from nmt.runs.folder import SCORES
from nmt.runs.trained_model import TrainedRun
from nmt.system.safe_files import UnreadableError, read_json
from nmt.web.served_run import describe_parts

log = logging.getLogger(__name__)

PAPERS = Path(__file__).with_name("papers.yaml")
CARD = """\
---
language: {codes}
pipeline_tag: translation
tags: [translation, rnn, attention, nmt-experiments]
# license: choose one, such as apache-2.0, and remove the # before it
---

# {title}

A recurrent encoder-decoder with attention that translates from {source} to {target}.

{facts}

## Scores

{scores}

## Load the model

It needs the Python package `nmt-experiments`{classes}. The folder has no code and no pickles.

```python
from nmt import load

model = load("{name}"{user_dir})  # or the path of this folder
print(model.translate(["A line of text."])[0])
```

## Licence

Not chosen yet. Write it here and in the first lines of this file. The licence of the training text may limit it.

## Cite

{papers}
"""


def write_card(run: TrainedRun, name: str | None = None) -> str:
    """Return the text of a run's model card.

    Args:
        run: The run.
        name: The model's name on the hub, if it has one.
    """
    languages = {side: escape_markdown(run.config.data[side].language) for side in ("source", "target")}
    parts, data = describe_parts(run), escape_markdown(run.config.data.name)
    others = sorted({target for target in _list_classes(run) if not target.startswith(("nmt.", "torch."))})
    return CARD.format(
        **languages,
        codes=json.dumps(list(languages.values())),
        title=f"{data}, {escape_markdown(parts.get('attention', 'attention'))}: {' to '.join(languages.values())}",
        facts="\n".join(Table(("", ""), list(_list_facts(run, parts))).to_markdown()),
        scores=_make_score_table(run),
        name=name or "hf:OWNER/NAME",
        classes=f", and a folder with {', '.join(f'`{target}`' for target in others)}" if others else "",
        user_dir=', user_dir="FOLDER"' if others else "",
        papers="\n".join(f"- {paper}" for paper in list_papers(run)) or "No paper is named.",
    )


def _list_facts(run: TrainedRun, parts: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from parts.items()
    yield "parameters", f"{sum(parameter.numel() for parameter in run.model.parameters()):,}"
    sizes = OmegaConf.to_container(run.config.size, resolve=True) if "size" in run.config else {}
    yield "sizes", ", ".join(f"{key} {value}" for key, value in sizes.items())
    words = " and ".join(f"{len(language.vocabulary):,}" for language in run.languages)
    yield "vocabularies", f"{words} ({run.config.data.vocabulary.kind})"
    yield "data", str(run.config.data.name)
    yield "training steps", f"{run.step:,}"
    if overrides := read_overrides(run.folder)[0]:
        yield "trained with", f"train.py {' '.join(overrides)}"


def _make_score_table(run: TrainedRun) -> str:
    rows = [row for path in sorted(run.folder.glob(f"*/{SCORES}")) if (row := _make_row(run, path))]
    if not rows:
        command = f"{name_command('evaluate')} run={run.folder}"
        log.warning("%s: its scores are not known. Fix: %s, then export it", run.folder, command)
        return "Not known."
    heads = ("test set", "sentences", "BLEU", "chrF", "settings", "signature of BLEU")
    return "\n".join(Table(heads, rows).to_markdown())


def _make_row(run: TrainedRun, path: Path) -> list[Any] | None:
    """Return the scores of a test set; None if they are damaged or of other weights."""
    name = path.parent.name
    try:
        stored = read_json(path, f"{name}/{SCORES}")
        scores, signatures = parse_scores(stored, f"{name}/{SCORES}")
        if parse_checkpoint(stored.get("members")) != (run.checkpoint.name, run.step):
            raise UnreadableError(f"{name}/{SCORES} is not of {run.checkpoint.name}, step {run.step}")
        text_overrides = parse_text_overrides(stored, str(stored.get("test", name)))
    except UnreadableError as error:
        log.warning("%s: %s, so the model card leaves these scores out", run.folder, error)
        return None
    settings = parse_search(stored) | {"checkpoint": DEFAULTS["checkpoint"]}
    chosen = [
        f"{key.removeprefix('search.')}={value}"
        for key, value in settings.items()
        if key == "search.beam" or value != DEFAULTS.get(key, value)
    ] + text_overrides
    counts = [f"{scores[key]:.2f}" if key in scores else "" for key in ("bleu", "chrf")]
    test, sentences, signature = stored.get("test", name), stored.get("sentences", ""), signatures.get("bleu", "")
    return [test, sentences, *counts, " ".join(chosen), signature]


def list_papers(run: TrainedRun) -> list[str]:
    """Return the papers that the docstrings of the model's classes name."""
    papers: dict[str, str] = yaml.safe_load(PAPERS.read_text(encoding="utf-8"))
    docstrings = "\n".join(str(hydra.utils.get_object(target).__doc__) for target in _list_classes(run))
    return [reference for paper, reference in papers.items() if paper in docstrings]


def _list_classes(run: TrainedRun) -> Iterator[str]:
    for _, node in walk(OmegaConf.to_container(run.config.model, resolve=True), "model"):
        if isinstance(node, dict) and node.get("_target_"):
            yield node["_target_"]
