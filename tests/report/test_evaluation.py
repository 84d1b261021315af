"""Scores of another text, or by another search, than `score_test=true` would have: what counts, and what is told."""

import json

import numpy as np
import pytest
from report.folders import evaluate, pairs, write_run

from nmt.report.load.run_folder import RunFolder
from nmt.report.render.paper_table import Entry, write_table
from nmt.runs.folder import is_scored

TABLE = {"table": "table2", "title": "Alignment quality"}


def told(folder, test="test", **stored):
    """The run, as evaluated otherwise."""
    path = folder / test / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | stored))
    return folder


@pytest.mark.parametrize(
    ("override", "counts"),
    [
        ("data.test=test", True),
        ("data.tests.news.source=news.en", True),
        ("data.dir=/moved", True),
        ("data.tests.test.alignments=gold", True),
        ("data.tests.test.source=first10lines", False),
        ("data.tests.test.references=[a,b]", False),
        ("data.reader.empty_side=drop", False),
    ],
)
def test_scores_of_another_text_are_not_those_of_the_test_set(tmp_path, override, counts):
    folder = told(write_run(tmp_path / "run"), data_overrides=[override])
    assert is_scored(folder, "test", "keep") == counts


def test_another_validation_text_is_not_the_validation_set(tmp_path):
    folder = write_run(tmp_path / "run", test="valid")
    assert is_scored(folder, None, "keep")
    assert not is_scored(told(folder, "valid", data_overrides=["data.valid.count=10"]), None, "keep")


def test_a_search_of_the_users_own_is_not_replaced(tmp_path):
    assert is_scored(told(write_run(tmp_path / "run"), search={"beam": 10}), "test", "keep")


def test_a_comparison_notes_that_a_test_set_of_the_runs_own_was_told_otherwise(tmp_path):
    own = {"data.tests": {"test": {"source": "a"}}}
    run = RunFolder(told(write_run(tmp_path / "run", changes=own), data_overrides=["data.tests.test.source=first10"]))
    run.on("test")
    assert run.notes == ["evaluated with data.tests.test.source=first10: maybe another text than its own test"]
    evaluate(run.folder, "news", pairs(3), 0.1, np.random.default_rng(0))
    told(run.folder, "news", data_overrides=["data.tests.news.source=news.en", "data.test=news"])
    run.on("news")  # which has no text but that
    assert len(run.notes) == 1


def test_a_papers_table_says_how_was_searched_and_leaves_another_text_out(tmp_path):
    ways = [{}, {"search": {"beam": 1}}, {"data_overrides": ["data.tests.test.source=first10"]}]
    runs = [told(write_run(tmp_path / f"{seed}", seed=seed), **way) for seed, way in enumerate(ways)]
    entries = [Entry({"rows": {"table2": "Base"}}, seed, run, "completed") for seed, run in enumerate(runs)]
    write_table(tmp_path, TABLE, entries)
    assert "| 2 | beam=1 (1 of 2) |\n" in (tmp_path / "table.md").read_text()
    write_table(tmp_path, TABLE, entries[1:2])
    assert "| 1 | beam=1 |\n" in (tmp_path / "table.md").read_text()
