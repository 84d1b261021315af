"""Write the results: an index, and a page with a figure for each study."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.report.render.markdown import format_duration, render_alignment_error, render_sections
from nmt.report.render.paper_table import render_paper_table
from nmt.report.render.table import Table
from nmt.system.files import write_text
from nmt.system.hardware import hardware_label
from nmt.system.safe_files import is_number
from studies.archive import Archive
from studies.figure import draw_costs, draw_figure
from studies.placeholders import fill_in_figures
from studies.summary_table import render_summary

HEAD = """# Results

Each study asks one question. Its page gives the finding, a leaderboard, the commands, and all tables,
and a figure where there are several systems. `compare.py` made the tables, and the numbers in the text
are taken from them. The archive beside a page holds the tables and the runs, without weights.

    python -m studies                 write these pages again, from the archives
    python -m studies keep NAME       compare the runs of a study again, and keep them
    python -m studies restore NAME    put the kept runs back, so that the study's commands resume there

How to read the tables:

- *p over sentences*: would other sentences of this kind show the difference? *p over seeds*: would
  newly trained models show it? A difference *holds*, or *is shown*, if both p are below 0.05 after
  correction for the number of comparisons. With one seed, only p over sentences can be computed. Such a
  finding is of these models; other seeds may not show it.
- A difference that is not shown may still exist.
- *Words too often* are words that the reference has less often or not at all. *Words left out* are the
  reverse. *Repeated 2grams* are word pairs repeated more often than in the reference.
- *valid/bleu* chooses the best checkpoint. It is of a greedy search on the validation set, in the words
  that the model sees. So do not compare it with BLEU on a test set.
- Settings and search were chosen on the validation set. A study says if a system was added because of
  the results of others.
- A system's test sets were translated after its training. Scores of some seeds were seen while
  others were still training.
- Another kind of processor gives other weights. To train one row again, use its command with
  another `sweep=`, because a restored run counts as completed. To add seeds to a study of one seed,
  restore it and add `seed=2,3` to its command; the folders of its first seed have no `seed=`.
- A + after a commit: files of the project had been changed since that commit.
- Four tables of the papers were trained with three seeds: Luong 4, Tu 1, Wang 1 and Meng 1. Luong 1 has
  one seed. Luong 3 and 6, Tu 2, Sankaran 2, 3, 5 and 6, Wang 2 and Meng 2 were left out, for lack of
  time on two cores. Their commands are ready ([a whole table](../experiments.md#train-a-whole-table)).

"""


def write_pages(studies: Mapping[str, Any], folder: Path) -> None:
    """Write docs/results/README.md, and NAME.md with its figures for each study that was kept."""
    tables = {name: Archive(folder / f"{name}.tar.xz").tables for name in studies}
    kept = {name: of_study for name, of_study in tables.items() if of_study}
    write_text(folder / "README.md", HEAD + _index(studies, kept))
    for name, study in studies.items():
        figures = {"score of each system": draw_figure(name, study, kept, folder)}
        if name in kept and "costs" in study:
            tables_of_test = kept[name]["tests"][study["costs"]]
            figures["time of training, BLEU and repetition"] = draw_costs(name, tables_of_test, folder)
        write_text(folder / f"{name}.md", _page(name, study, kept, figures))


def _index(studies: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    rows = [[f"[{study['title']}]({name}.md)", _finding(name, study, kept)] for name, study in studies.items()]
    # the titles and findings are this project's own, so their links are links
    return "\n".join(Table(["study", "finding"], rows).to_markdown()).replace("]\\(", "](") + "\n"


def _finding(name: str, study: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    if name not in kept:
        return "not run yet"
    if "finding" in study:
        return fill_in_figures(study["finding"].strip(), name, kept)
    states = [run["status"] for run in kept[name]["runs"]]
    return f"{states.count('completed')} of {study.get('planned', len(states))} runs are completed"


def _page(name: str, study: Mapping[str, Any], kept: Mapping[str, Any], figures: Mapping[str, Path | None]) -> str:
    parts = [f"# {study['title']}", f"**Finding.** {_finding(name, study, kept)}"]
    parts.append(f"**Question.** {study['question'].strip()}")
    if name in kept:
        parts += _leaderboards(study, kept[name])
        parts += [f"![{study['title']}: {what}]({figure.name})" for what, figure in figures.items() if figure]
        if study.get("reading"):
            parts.append(f"## Reading\n\n{fill_in_figures(study['reading'].strip(), name, kept)}")
    commands = "".join(f"    {line}\n" for text in study["commands"] for line in text.strip().splitlines())
    parts.append(f"## Commands\n\n{commands.rstrip()}")
    if name in kept:
        for test, tables in kept[name]["tests"].items():
            parts.append(_fold(f"All tables of {test}", render_sections(tables, level=3)))
        for baseline, tests in kept[name].get("other_baselines", {}).items():
            parts.append(_fold(f"Leaderboard with the baseline {baseline}", render_summary(tests)))
        parts.append(_fold("The runs", "\n".join(_runs(kept[name]["runs"]).to_markdown()) + "\n"))
        if (missing := study.get("planned", 0) - len(kept[name]["runs"])) > 0:
            parts.append(f"{missing} planned run{'s have' if missing > 1 else ' has'} not been started.")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _leaderboards(study: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    scored = [paper for paper in kept.get("papers", []) if any(row["n"] for row in paper["rows"])]
    papers = [render_paper_table(paper, level=2) for paper in scored]
    if study.get("asks") == "alignment":
        return [*papers, *(f"## Leaderboard\n\n{render_alignment_error(tables)}" for tables in kept["tests"].values())]
    return [*papers, f"## Leaderboard\n\n{render_summary(kept['tests'])}"] if kept["tests"] else papers


def _fold(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>"


def _runs(rows: list[Mapping[str, Any]]) -> Table:
    heads = ["run", "seed", "state", "best on validation", "steps", "time", "started", "commit", "machine"]
    return Table(heads, [_run(row) for row in rows])


def _run(row: Mapping[str, Any]) -> list[Any]:
    best, seconds = row["best"], row["wall_seconds"]
    score = f"{best['score']:.2f} ({best['metric']})" if best else ""
    duration = format_duration(seconds) if is_number(seconds) else ""
    commit = re.sub(r"(?<=^\w{9})\w+", "", row["git_commit"] or "")
    machine = hardware_label(row["machine"]) if row["machine"] else ""
    cells = [row["run"], row["seed"], row["status"], score, row["steps"], duration, row["started"], commit, machine]
    return ["" if cell is None else cell for cell in cells]
