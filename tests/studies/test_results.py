"""The pages of docs/results: everything on them comes from kept runs."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from report.folders import with_alignments, write_run

import studies.__main__ as command
from nmt.errors import ConfigurationError, UserError
from nmt.report.render.markdown import format_p
from nmt.report.render.paper_table import Entry, write_table
from nmt.runs.folder import strip_settings
from nmt.system.safe_files import read_yaml
from studies.archive import Archive
from studies.pages import write_pages

STUDY = {
    "title": "Two kinds",
    "question": "Which is better?",
    "commands": ["python train.py -m attention=additive,dot sweep=kinds"],
    "runs": ["kinds"],
    "tests": ["test"],
    "baseline": "additive",
    "planned": 5,
    "reading": "The one.",
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Run the command with these arguments; return the page of the study and its kept tables."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(command, "RESULTS", folder)
    monkeypatch.setattr(command, "STUDIES", tmp_path / "studies.yaml")
    monkeypatch.chdir(tmp_path)
    write_study()

    def run(*arguments: str) -> tuple[str, dict]:
        monkeypatch.setattr("sys.argv", ["studies", *arguments])
        command.main.__wrapped__()
        return (folder / "kinds.md").read_text(encoding="utf-8"), Archive(folder / "kinds.tar.xz").tables or {}

    return run


def write_study(**changes):
    Path("studies.yaml").write_text(yaml.safe_dump({"kinds": STUDY | changes}))


def test_the_page_of_a_new_study_has_its_question_and_commands(results):
    text, tables = results()
    assert text.startswith("# Two kinds\n\n**Finding.** not run yet\n\n**Question.** Which is better?\n\n## Commands\n")
    assert "\n    python train.py -m attention=additive,dot" in text
    assert tables == {}


def test_help_prints_the_usage_and_writes_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["studies", "--help"])
    command.main.__wrapped__()
    assert "python -m studies [keep NAME" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_page_can_be_written_long_after_the_runs_are_gone(results, tmp_path):
    summary = {
        "machine": {"processor": "Abacus", "cores": 2, "threads": 2},
        "git_commit": "0123456789abcdef+",
        "best": {"metric": "valid/bleu", "score": 31.234, "checkpoint": "x"},
    }
    write_run(tmp_path / "kinds" / "additive", mistakes=0.2, summary=summary)
    write_run(tmp_path / "kinds" / "dot", mistakes=0.05, changes={"dropout": 0.5}, summary=summary)
    write_run(tmp_path / "kinds" / "failed", seed=2, changes={"dropout": 0.7}, summary={"status": "failed"})
    jobs = [{"folder": "waiting", "status": "waiting", "overrides": ["attention=waiting"]}]
    (tmp_path / "kinds" / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    (tmp_path / "kinds" / "damaged" / "checkpoints").mkdir(parents=True)
    (tmp_path / "kinds" / "damaged" / "summary.json").write_text("{")
    text, kept = results("keep", "kinds")
    bleu = {row["system"]: row["scores"]["bleu"]["mean"] for row in kept["tests"]["test"]["systems"]}
    assert set(bleu) == {"additive", "dot"}
    assert bleu["dot"] > bleu["additive"]
    for name, score in bleu.items():
        assert f"| {name} | {score:.2f} |" in text
    assert f"| {bleu['dot'] - bleu['additive']:+.2f} [" in text
    assert "| dot | 1 | completed | 31.23 (valid/bleu) | 400 | 1:01 |" in text
    assert "| 012345678+ |" in text
    assert "Abacus, 2 threads" in text
    assert kept["runs"][0]["best"] == {"metric": "valid/bleu", "score": 31.234}  # without its place on a machine
    assert "| failed | 2 | failed |" in text
    assert "waiting |" not in text
    assert "\n1 planned run has not been started.\n" in text
    assert "| damaged |  | summary.json" in text
    assert "### Not compared" in text
    assert "**Finding.** 2 of 5 runs are completed\n" in text
    opened, folded = text.split("<details><summary>All tables of test</summary>")
    parts = ("**Question.**", "## Leaderboard", "| dot |", "](kinds.svg)", "## Reading\n\nThe one.", "## Commands")
    assert sorted(parts, key=opened.index) == list(parts)
    assert "### BLEU by source length" in folded
    assert "dot" in (tmp_path / "docs/results/kinds.svg").read_text()
    assert "| [Two kinds](kinds.md) | 2 of 5 runs are completed |" in (tmp_path / "docs/results/README.md").read_text()
    assert (tmp_path / "kinds" / "kinds_test.html").exists()
    for folder in (tmp_path / "kinds").iterdir():
        folder.rename(tmp_path / folder.name)
    assert results() == (text, kept)


def test_costs_are_a_figure_with_the_fastest_system_at_the_top(results, tmp_path):
    write_study(costs="test")
    write_run(tmp_path / "kinds" / "additive", summary={"wall_seconds": 50.0})
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5}, summary={"wall_seconds": 40.0})
    text, _ = results("keep", "kinds")
    assert "![Two kinds: time of training, BLEU and repetition](kinds_costs.svg)" in text
    figure = (tmp_path / "docs/results/kinds_costs.svg").read_text()
    assert [figure.count(f">{title}<") for title in ("training, seconds", "BLEU on test")] == [1, 1]
    assert figure.index(">additive<") < figure.index(">dot<")  # drawn from the bottom to the top


def test_a_study_with_other_baselines_has_a_leaderboard_for_each(results, tmp_path):
    write_study(other_baselines=["dot"], reading="p {bleu_p_sentences of additive less dot on test}.")
    write_run(tmp_path / "kinds" / "additive", mistakes=0.3)
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5})
    text, kept = results("keep", "kinds")
    tables = kept["other_baselines"]["dot"]["test"]
    assert "by_length" not in tables
    (row,) = [row for row in tables["systems"] if row["system"] == "additive"]
    p = row["difference"]["by_sentence"]["p_bootstrap"]
    _, folded = text.split("<details><summary>Leaderboard with the baseline dot</summary>")
    assert next(line for line in folded.split("\n") if " | baseline | " in line).startswith("| dot | ")
    assert f"## Reading\n\np {format_p(p)}." in text
    assert next(line for line in leaderboard(text) if " | baseline | " in line).startswith("| additive | ")


def leaderboard(text: str) -> list[str]:
    return text.split("## Leaderboard\n\n")[1].split("\n\n")[1].split("\n")


def test_the_best_on_average_over_several_test_sets_comes_first(results, tmp_path):
    write_study(tests=["test", "news"])
    for seed in (1, 2):
        write_run(tmp_path / "kinds" / f"additive_s{seed}", seed=seed, mistakes=0.1)
        write_run(tmp_path / "kinds" / f"additive_s{seed}", seed=seed, mistakes=0.3, test="news")
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5}, mistakes=0.2)
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5}, mistakes=0.05, test="news")
    text, kept = results("keep", "kinds")
    heads, _, first, second = leaderboard(text)
    assert heads.startswith("| system | n | parameters | BLEU test | Δ | p (sentences) | p (seeds) | BLEU news | Δ |")
    means = {
        row["system"]: [tables["scores"]["bleu"]["mean"] for tables in (row, other)]
        for row in kept["tests"]["test"]["systems"]
        for other in kept["tests"]["news"]["systems"]
        if row["system"] == other["system"]
    }
    assert sum(means["dot"]) > sum(means["additive"])
    cells = [cell.strip() for cell in first.split("|")[1:-1]]
    assert cells[:2] == ["dot", "1"]
    assert cells[3] == f"{means['dot'][0]:.2f}"
    assert cells[4].split(" [")[0] == f"{means['dot'][0] - means['additive'][0]:+.2f}".replace("-", "−")
    assert cells[7] == f"{means['dot'][1]:.2f}"
    cells = [cell.strip() for cell in second.split("|")[1:-1]]
    assert cells[:2] == ["additive", "2"]
    assert cells[4:7] == ["baseline", "", ""]


def test_a_system_of_fewer_seeds_on_one_test_set_is_one_row(results, tmp_path):
    write_study(tests=["test", "news"], baseline="a=additive")
    for seed, tests in ((1, ("test", "news")), (2, ("test",))):
        for test in tests:
            write_run(tmp_path / "kinds" / f"a=additive,seed={seed}", seed=seed, overrides=("a=additive",), test=test)
            changed = {"seed": seed, "changes": {"dropout": 0.5}, "overrides": ("a=dot",), "test": test}
            write_run(tmp_path / "kinds" / f"a=dot,seed={seed}", **changed)
    text, kept = results("keep", "kinds")
    assert {row["system"] for row in kept["tests"]["news"]["systems"]} == {"a=additive seed=1", "a=dot seed=1"}
    rows = leaderboard(text)[2:]
    assert sorted(row.split(" | ")[:2] for row in rows) == [["| a=additive", "2 / 1"], ["| a=dot", "2 / 1"]]
    assert all("|  |  |" not in row for row in rows if "a=dot" in row)


def test_a_study_of_alignment_has_its_error_as_leaderboard(results, tmp_path):
    write_study(asks="alignment")
    write_run(tmp_path / "kinds" / "additive")
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5})
    for run, right in (("additive", 1), ("dot", 2)):
        with_alignments(tmp_path / "kinds" / run, right)
    opened, _ = results("keep", "kinds")[0].split("<details><summary>All tables")
    table = opened.split("## Leaderboard")[1].split("##")[0]
    assert "| system | AER | Δ | p (sentences) | SAER |" in table
    assert -1 < table.index("\n| dot | ") < table.index("\n| additive | ")  # more of its links are right
    assert "BLEU" not in table


def test_the_papers_table_of_a_sweep_is_kept_and_shown(results, tmp_path):
    folder = write_run(tmp_path / "kinds" / "additive")
    paper = {"rows": {"table9": "Attention"}, "figures": {"news": {"bleu": 34.5}}, "departures": {"data": "toys"}}
    write_table(tmp_path / "kinds", {"table": "table9", "title": "Table 9"}, [Entry(paper, 1, folder, "completed")])
    text, kept = results("keep", "kinds")
    shutil.rmtree(tmp_path / "kinds")
    assert results()[0] == text
    write_run(tmp_path / "kinds" / "additive")
    assert results("keep", "kinds")[1]["papers"] == kept["papers"]
    again = [Entry(paper, 2, folder, "failed")]
    write_table(tmp_path / "kinds", {"table": "table9", "title": "Table 9"}, again)
    assert [row["n"] for paper in results("keep", "kinds")[1]["papers"] for row in paper["rows"]] == [0]
    _, table = text.split("## Table 9\n\n")
    row = table.split("\n")[2]
    assert row.startswith("| Attention | ")
    assert "| news 34.5 |" in row
    assert "- data: toys" in table


def test_a_study_without_runs_cannot_be_kept(results):
    with pytest.raises(UserError, match=r"kinds: nothing is in kinds\. Fix: run its commands"):
        results("keep", "kinds")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("keep", "kind"), r"kind: no such study \(did you mean kinds\?\); there are kinds"),
        (("keep",), "keep NAME"),
        (("forget",), "keep NAME"),
        (("write", "kinds"), "keep NAME"),
    ],
)
def test_a_wrong_argument_is_named(results, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        results(*arguments)


def test_a_failed_run_of_another_machine_stays_until_it_is_started_again(results, tmp_path):
    write_run(tmp_path / "kinds" / "additive", overrides=("attention=additive",))
    write_run(tmp_path / "kinds" / "dot", overrides=("attention=dot",), summary={"status": "failed"})
    text, _ = results("keep", "kinds")
    assert "\n3 planned runs have not been started.\n" in text
    shutil.rmtree(tmp_path / "kinds" / "dot")  # another machine has the completed runs alone
    text, kept = results("keep", "kinds")
    assert [row["status"] for row in kept["runs"]] == ["completed", "failed"]
    assert "\n3 planned runs have not been started.\n" in text
    write_run(tmp_path / "kinds" / "dot", overrides=("threads=1", "attention=dot"))  # the same training
    text, kept = results("keep", "kinds")
    assert [row["status"] for row in kept["runs"]] == ["completed", "completed"]


def test_a_run_that_was_never_tested_stays_with_its_validation_score(results, tmp_path):
    write_run(tmp_path / "kinds" / "additive", overrides=("attention=additive",))
    untested = write_run(tmp_path / "kinds" / "dot", overrides=("attention=dot",))
    shutil.rmtree(untested / "test")
    _, kept = results("keep", "kinds")
    shutil.rmtree(untested)
    assert results("keep", "kinds")[1]["runs"] == kept["runs"]
    assert [row["run"] for row in kept["runs"]] == ["additive", "dot"]


def test_a_run_is_kept_by_the_first_study_that_lists_its_folder():
    studies = {"one": {"runs": ["sweep/a=1", "other"]}, "two": {"runs": ["sweep"]}}
    homes = {folder: command.find_home(folder, studies) for folder in ("sweep/a=1", "sweep/a=10", "other/b", "sweep")}
    assert homes == {"sweep/a=1": "one", "sweep/a=10": "two", "other/b": "one", "sweep": "two"}
    assert command._studies_with("sweep", studies) == ["two", "one"]
    with pytest.raises(UserError, match="elsewhere: belongs to no study"):
        command.find_home("elsewhere", studies)


OWN = Path(__file__).parents[2] / "docs" / "results"
STUDIES = read_yaml(OWN.parents[1] / "studies" / "studies.yaml")


def test_the_pages_of_this_project_are_made_of_its_archives(tmp_path):
    for archive in OWN.glob("*.tar.xz"):
        (tmp_path / archive.name).symlink_to(archive)
    write_pages(STUDIES, tmp_path)
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md")}
    assert pages == {path.name: path.read_text(encoding="utf-8") for path in OWN.glob("*.md")}


def test_the_results_of_this_project_stay_small():
    files = list(OWN.iterdir())
    assert len(files) < 80
    assert sum(path.stat().st_size for path in files) < 8e6
    assert len((OWN / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("name", [name for name in STUDIES if (OWN / f"{name}.tar.xz").exists()])
def test_the_tables_of_this_project_are_those_of_its_kept_runs(name):
    """The sum of all systems' scores is the sum of all runs' scores."""
    folders = list(map(str, STUDIES[name]["runs"]))
    homes = {home for folder in folders for home in command._studies_with(folder, STUDIES)}
    kept = {}
    for home in homes:
        archive = Archive(OWN / f"{home}.tar.xz")
        kept |= {path: run["tests"] for folder in folders for path, run in archive.kept_runs(folder).items()}
    for test, tables in Archive(OWN / f"{name}.tar.xz").tables["tests"].items():
        evaluations = [
            kept_one for of_run in kept.values() for name, kept_one in of_run.items() if strip_settings(name) == test
        ]
        scores = [evaluation["scores"]["scores"] for evaluation in evaluations]
        assert len(scores) == sum(len(row["runs"]) for row in tables["systems"])
        for score in ("bleu", "chrf", "ter"):
            total = sum(row["scores"][score]["mean"] * len(row["runs"]) for row in tables["systems"])
            assert total == pytest.approx(sum(of_run[score]["score"] for of_run in scores)), (test, score)
