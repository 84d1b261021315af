"""The page of results: nothing on it but what was kept of runs."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
import yaml
from report.folders import with_alignments, write_run

import studies.__main__ as page
from nmt.errors import ConfigurationError, UserError
from nmt.report.render.paper_table import Entry, write_table

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
    """Called with arguments as the command is; the text of results.md and what was kept."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    (folder / "studies.yaml").write_text(yaml.safe_dump({"kinds": STUDY}))
    monkeypatch.setattr(page, "RESULTS", folder)
    monkeypatch.chdir(tmp_path)

    def written(*arguments: str) -> tuple[str, dict]:
        monkeypatch.setattr("sys.argv", ["results", *arguments])
        page.main()
        kept = folder / "kinds.json"
        text = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
        return text, json.loads(kept.read_text()) if kept.exists() else {}

    return written


def test_a_study_that_was_not_run_says_so(results):
    text, kept = results()
    assert "## Two kinds\n\nWhich is better?\n\n    python train.py -m attention=additive,dot" in text
    assert "Not run yet." in text
    assert kept == {}


def test_help_says_how_it_is_called_and_writes_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(page, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["results", "--help"])
    page.main()
    assert "python -m studies.__main__ [keep NAME" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_what_was_kept_is_shown_long_after_the_runs_are_gone(results, tmp_path):
    machine = {"processor": "Abacus", "cores": 2, "threads": 2}
    summary = {
        "machine": machine,
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
    assert kept["runs"][0]["best"] == {"metric": "valid/bleu", "score": 31.234}  # of no place on a machine
    assert "| failed | 2 | failed |" in text
    assert "waiting |" not in text
    assert "\n1 more has not begun.\n" in text
    assert "| damaged |  | summary.json" in text
    assert "#### Not compared" in text
    assert "sweep=kinds\n\n### What it says\n\nThe one.\n\n### In short\n" in text
    assert "| [Two kinds](#two-kinds) | 2 of 5 runs |" in text
    opened, folded = text.split("<details><summary>All tables of test</summary>")
    assert "| dot |" in opened
    assert "#### BLEU by source length" in folded
    assert (tmp_path / "kinds" / "kinds_test.html").exists()
    for folder in (tmp_path / "kinds").iterdir():
        folder.rename(tmp_path / folder.name)
    assert results() == (text, kept)


def test_several_test_sets_are_told_in_short_the_best_on_average_first(results, tmp_path):
    study = STUDY | {"tests": ["test", "news"]}
    (tmp_path / "docs" / "results" / "studies.yaml").write_text(yaml.safe_dump({"kinds": study}))
    for seed in (1, 2):
        write_run(tmp_path / "kinds" / f"additive_s{seed}", seed=seed, mistakes=0.1)
        write_run(tmp_path / "kinds" / f"additive_s{seed}", seed=seed, mistakes=0.3, test="news")
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5}, mistakes=0.2)
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5}, mistakes=0.05, test="news")
    text, kept = results("keep", "kinds")
    heads, _, first, second = text.split("### In short\n\n")[1].split("\n\n")[1].split("\n")
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


def test_a_system_of_fewer_seeds_on_one_test_set_is_one_line(results, tmp_path):
    study = STUDY | {"tests": ["test", "news"], "baseline": "a=additive"}
    (tmp_path / "docs" / "results" / "studies.yaml").write_text(yaml.safe_dump({"kinds": study}))
    for seed, tests in ((1, ("test", "news")), (2, ("test",))):
        for test in tests:
            write_run(tmp_path / "kinds" / f"a=additive,seed={seed}", seed=seed, overrides=("a=additive",), test=test)
            changed = {"seed": seed, "changes": {"dropout": 0.5}, "overrides": ("a=dot",), "test": test}
            write_run(tmp_path / "kinds" / f"a=dot,seed={seed}", **changed)
    text, kept = results("keep", "kinds")
    assert {row["system"] for row in kept["tests"]["news"]["systems"]} == {"a=additive seed=1", "a=dot seed=1"}
    lines = text.split("### In short\n\n")[1].split("\n\n")[1].split("\n")[2:]
    assert sorted(line.split(" | ")[:2] for line in lines) == [["| a=additive", "2 / 1"], ["| a=dot", "2 / 1"]]
    assert all("|  |  |" not in line for line in lines if "a=dot" in line)


def test_a_study_that_asks_for_alignment_shows_its_error_in_the_open(results, tmp_path):
    (tmp_path / "docs" / "results" / "studies.yaml").write_text(
        yaml.safe_dump({"kinds": STUDY | {"asks": "alignment"}})
    )
    write_run(tmp_path / "kinds" / "additive")
    write_run(tmp_path / "kinds" / "dot", changes={"dropout": 0.5})
    opened, _ = results("keep", "kinds")[0].split("<details><summary>All tables")
    assert "### In short\n\nNot all systems were compared with the same alignments made by hand.\n" in opened
    for run, right in (("additive", 1), ("dot", 2)):
        with_alignments(tmp_path / "kinds" / run, right)
    opened, _ = results("keep", "kinds")[0].split("<details><summary>All tables")
    table = opened.split("### In short")[1]
    assert "| system | AER | Δ | p (sentences) | SAER |" in table
    assert -1 < table.index("\n| dot | ") < table.index("\n| additive | ")  # more of its links are right
    assert "BLEU" not in table


def test_the_table_of_a_paper_that_a_sweep_made_is_kept_and_shown(results, tmp_path):
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
    _, table = text.split("### Table 9\n\n")
    row = table.split("\n")[2]
    assert row.startswith("| Attention | ")
    assert "| news 34.5 |" in row
    assert "- data: toys" in table


def test_runs_that_are_not_there_are_named_with_what_makes_them(results):
    with pytest.raises(
        UserError, match=r"kinds: has not begun here, nothing is in kinds; a study's commands stand in docs/results.md"
    ):
        results("keep", "kinds")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keep", "kind"), "kind: no such study; there are kinds"),
        (("keep",), "keep NAME"),
        (("forget",), "keep NAME"),
        (("write", "kinds"), "keep NAME"),
    ],
)
def test_a_wrong_word_is_named(results, arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        results(*arguments)


def test_what_failed_on_another_machine_stays_until_it_is_begun_again(results, tmp_path):
    write_run(tmp_path / "kinds" / "additive", overrides=("attention=additive",))
    write_run(tmp_path / "kinds" / "dot", overrides=("attention=dot",), summary={"status": "failed"})
    text, _ = results("keep", "kinds")
    assert "\n3 more have not begun.\n" in text
    shutil.rmtree(tmp_path / "kinds" / "dot")  # elsewhere there is only what is completed
    text, kept = results("keep", "kinds")
    assert [row["status"] for row in kept["runs"]] == ["completed", "failed"]
    assert "\n3 more have not begun.\n" in text
    write_run(tmp_path / "kinds" / "dot", overrides=("threads=1", "attention=dot"))  # it is the same that is trained
    text, kept = results("keep", "kinds")
    assert [row["status"] for row in kept["runs"]] == ["completed", "completed"]


def test_what_was_trained_and_never_tested_stays_with_its_score_on_validation(results, tmp_path):
    write_run(tmp_path / "kinds" / "additive", overrides=("attention=additive",))
    untested = write_run(tmp_path / "kinds" / "dot", overrides=("attention=dot",))
    shutil.rmtree(untested / "test")
    _, kept = results("keep", "kinds")
    shutil.rmtree(untested)
    assert results("keep", "kinds")[1]["runs"] == kept["runs"]
    assert [row["run"] for row in kept["runs"]] == ["additive", "dot"]


OWN = Path(__file__).parents[2] / "docs" / "results"
STUDIES = yaml.safe_load((OWN / "studies.yaml").read_text(encoding="utf-8"))


def test_the_projects_own_page_is_made_of_what_is_kept():
    assert OWN.with_suffix(".md").read_text(encoding="utf-8") == page.results(STUDIES)


RUN = [name for name, study in STUDIES.items() if study["tests"] and (OWN / f"{name}.json").exists()]


@pytest.mark.parametrize("name", RUN)
def test_the_projects_own_tables_are_those_of_its_kept_runs(name):
    """Each mean is of runs that are kept: what all systems have together is what all runs have."""
    places = [OWN / folder for folder in STUDIES[name]["runs"]]
    kept = {path for place in places for path in (*place.rglob("*.json.gz"), place.with_name(f"{place.name}.json.gz"))}
    runs = [json.loads(gzip.decompress(path.read_bytes()))["tests"] for path in kept if path.is_file()]
    for test, tables in json.loads((OWN / f"{name}.json").read_text(encoding="utf-8"))["tests"].items():
        scores = [run[test]["scores"]["scores"] for run in runs if test in run]
        assert len(scores) == sum(len(row["runs"]) for row in tables["systems"])
        for score in ("bleu", "chrf", "ter"):
            in_tables = sum(row["scores"][score]["mean"] * len(row["runs"]) for row in tables["systems"])
            assert in_tables == pytest.approx(sum(of[score]["score"] for of in scores)), (test, score)
