"""Write docs/results from the kept studies: python -m studies [keep NAME … | restore NAME …]

A study is a question, the commands that answer it, and the folders of their runs (studies/studies.yaml).

    python -m studies                 write the pages anew, from the archives in docs/results/
    python -m studies keep NAME       compare the study's runs as compare.py does, and keep tables and runs
    python -m studies restore NAME    put kept runs back where they are missing, so that the commands resume there
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nmt.cli.compare import compare
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, UserError, did_you_mean
from nmt.report.load.run_folder import RunFolder, find_runs, read_settings
from nmt.report.load.run_names import select_training_overrides
from nmt.report.render.paper_table import TABLE
from nmt.system.safe_files import read_json, read_yaml
from studies.archive import TABLES, Archive, keep_runs, relative_folder, restore_runs
from studies.pages import write_pages

STUDIES = Path(__file__).parent / "studies.yaml"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
RESAMPLES = 10_000  # with a thousand, chance decides whether a corrected p is below 0.05
ROW = ("status", "steps", "wall_seconds", "machine", "git_commit", "started")  # kept of a run's summary
SUMMARIZED = ("baseline", "systems", "adequacy", "alignment", "validation", "spread_over_seeds")  # by a leaderboard


@exit_with_one_line_errors
def main() -> None:
    if {"-h", "--help", "help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        return
    studies = read_yaml(STUDIES)
    command, *names = sys.argv[1:] or ["write"]
    if command not in ("keep", "restore", "write") or bool(names) != (command != "write"):
        raise ConfigurationError(f"{' '.join(sys.argv[1:])}: give keep NAME …, restore NAME …, or nothing")
    for name in names:
        if name not in studies:
            hint = did_you_mean(name, studies)
            raise ConfigurationError(f"{name}: no such study{hint}; there are {', '.join(studies)}")
        restore(name, studies)
        if command == "keep":
            keep(name, studies)
    write_pages(studies, RESULTS)


def find_home(folder: str, studies: Mapping[str, Any]) -> str:
    """Return the study in whose archive a run is kept: the first that lists its folder, or one above it."""
    for name, study in studies.items():
        for listed in map(str, study["runs"]):
            if folder == listed or folder.startswith(f"{listed.rstrip('/')}/"):
                return name
    raise UserError(f"{folder}: belongs to no study")


def restore(name: str, studies: Mapping[str, Any]) -> None:
    """Restore a study's runs, from its own archive and from those of studies that share them."""
    reasons: list[str] = []
    for folder in studies[name]["runs"]:
        for home in _studies_with(folder, studies):
            for path, reason in restore_runs(folder, Archive(_archive_path(home))).items():
                print(f"{path}: {f'not restored: {reason}' if reason else 'restored, without checkpoints'}")
                reasons.append(reason)
    if any(reasons):
        print(f"docs/results/{name}.md has the commands that make missing files")


def _studies_with(folder: str, studies: Mapping[str, Any]) -> list[str]:
    """Return the studies whose archives may hold runs of a folder."""
    inner = [name for name, study in studies.items() if any(str(one).startswith(f"{folder}/") for one in study["runs"])]
    return list(dict.fromkeys([find_home(relative_folder(folder), studies), *inner]))


def keep(name: str, studies: Mapping[str, Any]) -> None:
    """Compare what is there of a study on each of its test sets, and keep tables and runs."""
    study = studies[name]
    folders = [folder for folder in study["runs"] if Path(folder).is_dir()]
    if not folders:
        raise UserError(f"{name}: nothing is in {', '.join(study['runs'])}. Fix: run its commands (docs/results)")
    runs = find_runs(folders)
    archives = {name: Archive(_archive_path(name))}
    archives[name].entries[TABLES] = _compare(name, study, folders, runs, archives[name].tables or {"runs": []})
    homes = [find_home(relative_folder(run.folder), studies) for run in runs]
    for home in dict.fromkeys(homes):
        archive = archives.setdefault(home, Archive(_archive_path(home)))
        of_home = [run for run, its_home in zip(runs, homes, strict=True) if its_home == home]
        for message in keep_runs(of_home, study["tests"], archive):
            print(message)
    for archive in archives.values():
        archive.write()


def _compare(
    name: str, study: Mapping[str, Any], folders: Sequence[str], runs: Sequence[RunFolder], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the tables of each test set, a row for each run, and the papers' tables that its sweeps made."""
    rows = [_describe(run) for run in runs]
    started = [row for row in rows if row["status"] != "waiting"]
    waiting = {row["run"] for row in rows} - {row["run"] for row in started}
    other_baselines = {
        baseline: {test: _summarized(_compare_on(test, name, baseline, folders)) for test in study["tests"]}
        for baseline in study.get("other_baselines", ())
    }
    tests = {test: _compare_on(test, name, study.get("baseline"), folders) for test in study["tests"]}
    for tables in tests.values():
        tables["not_compared"] = [one for one in tables["not_compared"] if one["run"] not in waiting]
    papers = [read_json(table) for folder in folders if (table := Path(folder) / TABLE).is_file()]
    papers = list({paper["title"]: paper for paper in (*before.get("papers", []), *papers)}.values())
    tables = {"tests": tests, "runs": started + _rows_elsewhere(before["runs"], rows)}
    optional = {"papers": papers, "other_baselines": other_baselines}
    return tables | {key: value for key, value in optional.items() if value}


def _compare_on(test: str, name: str, baseline: str | None, folders: Sequence[str]) -> dict[str, Any]:
    """Return the tables of one test set; the page that compare.py writes lies in the first folder."""
    page = Path(folders[0]) / f"{name}_{test}.html"
    settings = OmegaConf.merge(load_defaults("compare"), {"output": str(page), "test": test})
    settings.resamples, settings.baseline = RESAMPLES, baseline
    print(compare(folders, settings))
    return read_json(page.with_suffix(".json"))


def _summarized(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tables[key] for key in SUMMARIZED}


def _describe(run: RunFolder) -> dict[str, Any]:
    row = {"run": run.name, "seed": read_settings(run).seed, "overrides": list(run.overrides), "best": run.best}
    return row | {name: run.summary.get(name) for name in ROW}


def _rows_elsewhere(before: Sequence[Mapping[str, Any]], here: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of runs that another machine has: failed, interrupted, or trained but never tested."""
    known = [set(select_training_overrides(row["overrides"])) for row in here]
    return [row for row in before if set(select_training_overrides(row["overrides"])) not in known]


def _archive_path(study: str) -> Path:
    return RESULTS / f"{study}.tar.xz"


if __name__ == "__main__":
    main()
