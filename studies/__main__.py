"""`docs/results.md`, from kept comparisons: python -m studies.__main__ [keep NAME … | restore NAME …]

A study is a question, the commands that answer it, and the folders their runs lie in (docs/results/studies.yaml). `keep
NAME` compares its runs as compare.py does and keeps the tables, with a row for every run, as docs/results/NAME.json,
with the paper's table where a sweep made one; the page of the comparison goes beside the runs. Then, or alone, the
Markdown is made of all that is kept: no number of a table was ever typed; what a study asks and how it is read is
written by hand, with {figures} of its tables filled in. Each completed run is kept in small, too, and put back where it
is not there: with `restore NAME` first, a study goes on elsewhere, and nothing is trained twice.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nmt.cli.compare import compare
from nmt.cli.exit_status import in_plain_words
from nmt.config.schema import defaults_of
from nmt.errors import ConfigurationError, UserError
from nmt.report.compare.setting_differences import name_runs, of_the_model
from nmt.report.load.run_folder import RunFolder, find_runs
from nmt.report.load.safe_files import UnreadableError, is_number, read_json, read_yaml
from nmt.report.render.markdown import alignment, clock, sections, table
from nmt.report.render.paper_table import TABLE, markdown
from nmt.system.files import write_json, write_text
from nmt.system.hardware import said
from studies.archive import keep_runs, put_back
from studies.placeholders import with_figures
from studies.summary_table import in_short

RESULTS = Path(__file__).parents[1] / "docs" / "results"
RESAMPLES = 10_000  # p of a thousand cannot be told from the luck of many comparisons
HOW = "a study's commands stand in docs/results.md"
HEAD = """# Results

Made by `python -m studies.__main__` from what lies in [results/](results/): tables, which say what `compare.py` said
of the runs, and each tested run in small. What stands before and above the tables is written by hand; figures of a
table in it are filled in from the table. Every study names
its commands; `python -m studies.__main__ keep NAME` compares the runs anew and keeps them and what they say, `restore
NAME` puts kept runs back, so that the commands go on where they were. One row is trained anew by its study's command
with that choice and another `sweep=` (restored, it would count as completed), then evaluated as there; another kind of
processor gives other weights. Test sets were translated when a system's training had ended; tables were made while
other seeds were still trained. Settings and search were chosen on the validation set; where a system was added because
of what others did, its study says so. A + behind a commit: files of the project were changed since. *Over sentences*:
it would be seen on other sentences of the kind; *over seeds*: with models trained anew; a difference *holds* where both
are shown.
"""


def main() -> None:
    if {"-h", "--help", "help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        return
    studies = read_yaml(RESULTS / "studies.yaml")
    verb, *names = sys.argv[1:] or ["write"]
    if verb not in ("keep", "restore", "write") or bool(names) != (verb != "write"):
        raise ConfigurationError(f"{' '.join(sys.argv[1:])}: keep NAME …, restore NAME …, or nothing")
    for name in names:
        if name not in studies:
            raise ConfigurationError(f"{name}: no such study; there are {', '.join(studies)}")
        restore(studies[name])
        if verb == "keep":
            keep(name, studies[name])
    write_text(RESULTS.with_suffix(".md"), results(studies))


def restore(study: Mapping[str, Any]) -> None:
    for folder, reason in put_back(study["runs"], RESULTS).items():
        print(f"{folder}: {f'not put back: {reason}' if reason else 'put back, without checkpoints and alignments'}")


def keep(name: str, study: Mapping[str, Any]) -> None:
    """One comparison for each test set, of what has begun."""
    folders = [folder for folder in study["runs"] if Path(folder).is_dir()]
    if not folders:
        raise UserError(f"{name}: has not begun here, nothing is in {', '.join(study['runs'])}; {HOW}")
    kept: dict[str, Any] = {}
    runs = find_runs(folders)
    name_runs(runs)
    rows = [row_of(run) for run in runs]
    begun = [row for row in rows if row["status"] != "waiting"]
    waiting = {row["run"] for row in rows} - {row["run"] for row in begun}
    path = RESULTS / f"{name}.json"
    before = read_json(path) if path.exists() else {"runs": []}
    begun += _elsewhere(before["runs"], rows)
    for test in study["tests"]:
        page = Path(folders[0]) / f"{name}_{test}.html"
        settings = OmegaConf.merge(defaults_of("compare"), {"output": str(page), "test": test, "resamples": RESAMPLES})
        settings.baseline = study.get("baseline")
        print(compare(folders, settings))
        kept[test] = read_json(page.with_suffix(".json"))
        kept[test]["not_compared"] = [one for one in kept[test]["not_compared"] if one["run"] not in waiting]
    papers = _papers(before.get("papers", []), folders)
    write_json(path, {"tests": kept, "runs": begun} | ({"papers": papers} if papers else {}))
    for line in keep_runs(runs, study["tests"], RESULTS):
        print(line)


def _papers(before: Sequence[Mapping[str, Any]], folders: Sequence[str]) -> list[Mapping[str, Any]]:
    """Runs that were put back have no table until their sweep's command makes it: the one before stays."""
    here = (read_json(table) for folder in folders if (table := Path(folder) / TABLE).is_file())
    return list({paper["title"]: paper for paper in (*before, *here)}.values())


def _elsewhere(before: Sequence[Mapping[str, Any]], here: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What another machine told of, and was neither put back nor begun again on this one: what went wrong, was stopped,
    or was trained but never tested."""
    known = [set(of_the_model(row["overrides"])) for row in here]
    return [row for row in before if set(of_the_model(row["overrides"])) not in known]


def row_of(run: RunFolder) -> dict[str, Any]:
    try:
        summary, best = run.summary, run.best
    except UnreadableError as error:
        summary, best = {"status": run.state or str(error)}, {}
    kept = ("status", "steps", "wall_seconds", "machine", "git_commit", "started")
    row = {"run": run.name, "seed": run.seed, "overrides": run.overrides, "best": best}
    return row | {name: summary.get(name) for name in kept}


def results(studies: Mapping[str, Any]) -> str:
    kept = {name: read_json(path) for name in studies if (path := RESULTS / f"{name}.json").exists()}
    parts = [HEAD, _contents(studies, kept)]
    for name, study in studies.items():
        parts += [f"## {study['title']}\n\n{study['question'].strip()}\n\n", _commands(study["commands"])]
        parts.append(_kept(name, kept, study) if name in kept else "\nNot run yet.\n")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _contents(studies: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    rows = [["study", "in a line"]]
    for name, study in studies.items():
        states = [run["status"] for run in kept[name]["runs"]] if name in kept else []
        done = f"{states.count('completed')} of {study.get('planned', len(states))} runs" if states else "not run yet"
        told = with_figures(study["finding"], name, kept) if name in kept and "finding" in study else done
        rows.append([f"[{study['title']}](#{_anchor(study['title'])})", told])
    return "\n".join(table(rows)) + "\n"


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _commands(commands: list[str]) -> str:
    return "".join(f"    {line}\n" for command in commands for line in command.strip().splitlines())


def _kept(name: str, kept: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """What was found in the open, all else folded."""
    own, parts = kept[name], []
    tests = own["tests"]
    if study.get("reading"):
        parts.append(f"### What it says\n\n{with_figures(study['reading'].strip(), name, kept)}\n")
    parts += [markdown(paper, level=3) for paper in own.get("papers", [])]
    if study.get("asks") == "alignment":
        parts += [f"### In short\n\n{alignment(tables)}" for tables in tests.values()]
    elif tests:
        parts.append(in_short(tests))
    parts += [_folded(f"All tables of {test}", sections(tables, level=4)) for test, tables in tests.items()]
    parts.append(_folded("The runs", _runs(own["runs"])))
    if (waiting := study.get("planned", 0) - len(own["runs"])) > 0:
        parts.append(f"{waiting} more {'has' if waiting == 1 else 'have'} not begun.\n")
    return "\n".join(parts)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _runs(rows: list[Mapping[str, Any]]) -> str:
    heads = ["run", "seed", "state", "best on validation", "steps", "time", "begun", "commit", "machine"]
    return "\n".join(table([heads, *map(_run, rows)])) + "\n"


def _run(row: Mapping[str, Any]) -> list[Any]:
    best, seconds = row["best"], row["wall_seconds"]
    score = f"{best['score']:.2f} ({best['metric']})" if best else ""
    on = said(row["machine"]) if row["machine"] else ""
    time = clock(seconds) if is_number(seconds) else ""
    commit = re.sub(r"(?<=^\w{9})\w+", "", row["git_commit"] or "")
    found = [row["run"], row["seed"], row["status"], score, row["steps"], time, row["started"], commit, on]
    return ["" if value is None else value for value in found]


if __name__ == "__main__":
    with in_plain_words():
        main()
